// Numbers: packed ones into arrays, and any into the text a reader sees.

// Three digits, as figures/markup.py writes them.
lensons.three = (x) => {
  if (Number.isNaN(x)) return "not defined";
  if (!Number.isFinite(x)) return x < 0 ? "masked" : "infinite";
  const size = Math.abs(x), sign = x < 0 ? "−" : "";
  if (size === 0) return "0";
  const [mantissa, exponent] = size.toExponential(1).split("e").map(Number);
  if (exponent < -5) return `${sign}${mantissa.toFixed(1)}e${exponent}`;
  if (size < 0.001) return sign + Number(size.toExponential(1)).toFixed(1 - exponent).slice(1);
  if (Math.round(size * 1000) / 1000 < 1) return sign + size.toFixed(3).slice(1);
  const digits = Math.max(0, 3 - String(Math.round(Math.round(size * 100) / 100)).length);
  return sign + size.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
};

// "{query} looks at {key}" with its names filled in; numbers that are not whole get three digits.
lensons.fill = (text, values) => text.replace(/\{(\w+)\}/g, (all, name) =>
  !(name in values) ? all : typeof values[name] === "number" && !Number.isInteger(values[name]) ? lensons.three(values[name])
  : typeof values[name] === "number" ? values[name].toLocaleString("en") : String(values[name]));

// Base64 of something compressed, into bytes. Needs a browser with DecompressionStream.
lensons.unpack = (text, format) => {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream(format))).arrayBuffer();
};

// Patterns of several heads, as figures/packing.py packs them: share(head, query, key), and whether it is exact.
lensons.patterns = async (packed, n, causal) => {
  const cells = causal ? (n * (n + 1)) / 2 : n * n;
  const at = causal ? (q, k) => (q * (q + 1)) / 2 + k : (q, k) => q * n + k;
  const bytes = await lensons.unpack(packed.data, "deflate");
  if (packed.scale === "exact") {
    const shares = new Float32Array(bytes);
    return { share: (h, q, k) => shares[h * cells + at(q, k)], exact: () => true };
  }
  const codes = new Uint8Array(bytes), exactly = {};
  const shares = Float64Array.from({ length: 256 }, (_, code) => (code ? packed.ratio ** (code - 255) : 0));
  for (const [head, data] of Object.entries(packed.exactly ?? {})) exactly[head] = new Float32Array(await lensons.unpack(data, "deflate"));
  return {
    share: (h, q, k) => (exactly[h] ? exactly[h][at(q, k)] : shares[codes[h * cells + at(q, k)]]),
    exact: (h) => h in exactly,
    under: packed.under,
  };
};
