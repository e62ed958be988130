"""What the tests passed on, as a table: one line a file in ``docs/compatibility``.

``python docs/_ext/compatibility.py`` writes the file of the environment it runs in. The session ``tests`` calls it
after all tests have passed there.
"""

import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "compatibility"
PACKAGES = ("transformer-lens", "torch", "transformers", "circuitsvis")


def record(folder=FOLDER):
    """Write down what this environment is made of."""
    found = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    found |= {package: version(package).split("+")[0] for package in PACKAGES}
    short = ".".join(found["python"].split(".")[:2])
    folder.mkdir(exist_ok=True)
    path = folder / f"python-{short}-transformer-lens-{found['transformer-lens']}-torch-{found['torch']}.json"
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return path


def rows(folder=FOLDER):
    """Every environment that passed, oldest first."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    return sorted(
        found, key=lambda row: [int(x) for x in row["transformer-lens"].split(".") + row["python"].split(".")]
    )


def as_markdown():
    """The table."""
    head = ("TransformerLens", "Python", "torch", "transformers", "CircuitsVis", "system")
    keys = ("transformer-lens", "python", "torch", "transformers", "circuitsvis", "system")
    lines = [head, ["---"] * len(head), *([row[key] for key in keys] for row in rows())]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def setup(app):
    """Sphinx calls this."""
    from sphinx.util.docutils import SphinxDirective

    class Table(SphinxDirective):
        def run(self):
            for path in FOLDER.glob("*.json"):
                self.env.note_dependency(str(path))
            return self.parse_text_to_nodes(as_markdown())

    app.add_directive("compatibility-table", Table)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    sys.stdout.write(f"Wrote {record()}.\n")
