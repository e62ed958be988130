"""The attention lesson: true to the model, on any text, with answers that are computed."""

import json
import math
import re
from html.parser import HTMLParser

import pytest
import torch

import lensons
from lensons.errors import CheckError, InputError
from lensons.figures import Figure
from lensons.lessons import Evidence, Step
from lensons.lessons.predict import share_of_higher, which_rows, who_adds_most
from lensons.lessons.referents import it_position, search_it_head, word_positions
from lensons.lessons.words import Words, glossary, sources, text_file
from lensons.pairs import FEELINGS
from tests.conftest import OTHER, SENTENCE

STEPS = ["it", "grid", "queries-and-keys", "scores-to-shares", "mixing-values", "many-heads"]
TERMS = ["attention", "token", "GPT-2", "query", "key", "value", "dot product", "softmax", "causal attention",
         "attention head", "induction head", "attention sink", "transformer"]  # fmt: skip
WORKS = ["vaswani2017", "radford2019", "gpt2card", "gpt2config", "google2017", "olsson2022", "elhage2021", "wang2022",
         "xiao2023", "jurafsky"]  # fmt: skip


@pytest.fixture(scope="module")
def lesson(toy):
    return lensons.AttentionLesson(toy)


@pytest.fixture(scope="module")
def page(lesson, tmp_path_factory):
    return lesson.save(tmp_path_factory.mktemp("page") / "attention.html").read_text(encoding="utf-8")


class Tables(HTMLParser):
    """Every table of a page, by step and kind of figure: rows of (what is read, all digits)."""

    def __init__(self, html):
        super().__init__()
        self.found, self.step, self.kind, self.cell = {}, None, None, None
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "section":
            self.step = given.get("id")
        elif tag == "figure":
            self.kind = given.get("data-kind")
        elif tag == "tr" and self.kind:
            self.found.setdefault((self.step, self.kind), []).append([])
        elif tag in ("td", "th") and self.kind:
            self.cell = ["", given.get("title", "")]
            self.found[self.step, self.kind][-1].append(self.cell)

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.cell = None
        elif tag == "figure":
            self.kind = None

    def handle_data(self, data):
        if self.cell is not None:
            self.cell[0] += data


def read(shown):
    """A number as it stands on the page, and how far off its rounding may be."""
    shown = shown.replace("−", "-")
    number = float(shown.replace(",", ""))
    digits = re.sub(r"e.*", "", shown).lstrip("-").replace(",", "")
    decimals = len(digits.split(".")[1]) if "." in digits else 0
    exponent = int(shown.split("e")[1]) if "e" in shown else 0
    return number, 0.501 * 10.0 ** (exponent - decimals)


def test_six_steps_with_figures_and_words(lesson):
    """Six steps in order within 15 minutes, each with a figure, a lead, a question, and what it does not show."""
    assert [step.name for step in lesson.steps] == STEPS
    assert sum(lesson.minutes.values()) <= 15
    for step in lesson.steps:
        assert isinstance(step, Step)
        assert all(isinstance(figure, Figure) for figure in step.figures)
        assert step.figures
        assert step.lead
        assert step.not_shown
        assert step.question is not None
        html = step._repr_html_()
        assert step.title in html
        assert html.count("<style") == html.count("</script>") - html.count('type="application/json"') == 1
        assert 'href="#' not in html
        assert step.figures[0].title in repr(step)


def test_every_number_on_the_page_is_its_own_within_rounding(lesson, page):
    """Each table cell of the saved page reads as the full number behind it, and that number is the figure's."""
    tables, compared = Tables(page).found, 0
    for step in lesson.steps:
        for figure in step.figures:
            shown = tables[step.name, figure.kind]
            rows = [row for row in shown if len(row) == len(figure.table.columns)]
            for expected in figure.table.rows:
                row = next(r for r in rows if all(_same(cell, value) for cell, value in zip(r, expected, strict=True)))
                compared += sum(isinstance(value, float) for value in expected)
                rows.remove(row)
    assert compared > 500


def _same(cell, value):
    text, full = cell
    if not isinstance(value, float):
        return text == ("" if value is None else str(value))
    if math.isnan(value):
        return text == "not defined"
    if full and float(full) != value:
        return False
    if not re.match(r"−?[\d.,]+(e-?\d+)?$", text):
        return False
    number, off = read(text)
    return abs(number - value) <= off


def test_numbers_of_steps_three_to_five_are_the_traces(lesson, toy):
    """For a chosen head, query and key: dot, scores, powers, shares, lengths and z are those of the trace."""
    trace = lensons.trace(toy, SENTENCE)
    for name, query, key in (("1.2", 7, 3), ("L0H1", 12, 12), ((3, 0), 1, 0)):
        head = trace.head(name)
        dots = lesson.queries_and_keys(head=name, query=query, key=key)
        assert dots.data["dot"] == pytest.approx(float(head.q[query] @ head.k[key]), abs=1e-3, rel=1e-5)
        assert dots.data["dots"][key] == pytest.approx(dots.data["dot"])
        vectors, products, _ = dots.figures
        assert [row[1:3] for row in vectors.table.rows] == [
            (pytest.approx(float(q)), pytest.approx(float(k))) for q, k in zip(head.q[query], head.k[key], strict=True)
        ]
        assert sum(row[3] for row in products.table.rows[:-1]) == pytest.approx(products.table.rows[-1][3])
        shares = lesson.scores_to_shares(head=name, query=query)
        assert shares.data["scores"] == pytest.approx(head.scores[query, : query + 1].tolist(), abs=1e-5)
        assert shares.data["shares"] == pytest.approx(head.pattern[query, : query + 1].tolist(), abs=1e-6)
        total = sum(shares.data["powers"])
        assert shares.data["shares"] == pytest.approx([p / total for p in shares.data["powers"]], abs=1e-6)
        mixing = lesson.mixing_values(head=name, query=query)
        lengths = [float((head.v[k] @ trace.w_o[head.name]).norm()) for k in range(query + 1)]
        assert mixing.data["lengths"] == pytest.approx(lengths, rel=1e-4)
        assert mixing.data["total"] == pytest.approx(float(head.written[query].norm()), rel=1e-5)
        table = next(figure for figure in mixing.figures if figure.kind == "mixing").table
        for row in table.rows:
            assert row[-2] == pytest.approx(row[-1], abs=1e-4)
            assert sum(row[1:-2]) == pytest.approx(row[-2], abs=1e-9)


def test_a_query_can_be_named_by_its_word(lesson):
    """query="it" is the position of that word; a key that comes later, or a word that is not there, is an error."""
    assert lesson.queries_and_keys(query="it").data["query"] == it_position(lesson.trace.tokens)
    assert lesson.queries_and_keys(query="it", key="animal").data["key"] == 2
    with pytest.raises(InputError, match="does not stand in the text"):
        lesson.queries_and_keys(query="unicorn")
    with pytest.raises(InputError, match="comes after"):
        lesson.queries_and_keys(query=3, key=5)
    with pytest.raises(lensons.errors.HeadIndexError, match="no position"):
        lesson.mixing_values(query=99)
    with pytest.raises(lensons.errors.HeadIndexError, match="no layer 7"):
        lesson.grid(head="7.7")


# --- step 1 -----------------------------------------------------------------------------------------------------


def test_the_row_of_it_cannot_change(lesson):
    """Step 1: with the clue at the end no row before the changed word differs; the row of "it" is among them."""
    data = lesson.it().data
    gaps, first = data["row_difference"], data["first_changed"]
    assert data["it"] < first
    assert max(gaps[:first]) <= 1e-5
    assert list(data["changed_rows"]) == list(range(first, len(gaps)))
    assert max(data["front_row_difference"][: data["front_first_changed"]]) <= 1e-5


def test_row_differences_by_a_slow_loop(lesson, toy):
    """The largest difference of a row equals a loop over all layers, heads and keys."""
    a, b = (lensons.trace(toy, text).pattern for text in (SENTENCE, OTHER))
    for row, gap in enumerate(lesson.it().data["row_difference"]):
        expected = max(
            abs(float(a[layer, head, row, key]) - float(b[layer, head, row, key]))
            for layer in range(a.shape[0])
            for head in range(a.shape[1])
            for key in range(row + 1)
        )
        assert gap == pytest.approx(expected, abs=1e-7)


def test_the_head_is_measured_on_pairs_it_was_not_chosen_on(lesson, toy):
    """The head that was looked for: its means on both halves and its rank equal a slow loop over single traces."""
    from lensons.pairs import it_pairs

    search = lesson.it().data["search"]
    moves = []
    for pair in it_pairs(60, seed=0, clue="front"):
        leaning = []
        for text in (pair.text_a, pair.text_b):
            trace = lensons.trace(toy, text)
            it = it_position(trace.tokens)
            a, b = (word_positions(trace.tokens, noun)[-1] for noun in (pair.noun_a, pair.noun_b))
            leaning.append(trace.pattern[:, :, it, a] - trace.pattern[:, :, it, b])
        moves.append((leaning[0] - leaning[1]) / 2)
    first, second = torch.stack(moves[:30]).mean(0), torch.stack(moves[30:]).mean(0)
    assert search.head == divmod(int(first.argmax()), toy.n_heads)
    assert search.mean == pytest.approx(float(second[search.head]), abs=1e-5)
    assert search.rank == 1 + int((second > second[search.head] + 1e-7).sum())
    assert search.low <= search.mean <= search.high
    assert search.right == sum(float(m[search.head]) > 0 for m in moves[30:])


def test_a_planted_head_is_found_and_a_random_model_has_none(small_gpt2, monkeypatch):
    """A head that moves its attention to the noun that is meant is found; a model of random weights has none."""
    assert not search_it_head(small_gpt2, n_pairs=10).found
    from lensons.lessons import referents

    honest = referents.attention_out_of_it
    monkeypatch.setattr(referents, "_right_answers", lambda *_: torch.zeros(0, dtype=torch.bool))

    def planted(model, sentences):
        rows = honest(model, sentences)
        for row, tokens in zip(rows, sentences, strict=True):
            row[1, 2] = 0
            text = tokens.text
            about_animal = re.search("|".join(FEELINGS), text)
            noun = text.split()[1] if about_animal else text.split(",")[0].split()[-1]
            where = list(word_positions(tokens, noun))
            row[1, 2, where] = 1 / len(where)
        return rows

    monkeypatch.setattr(referents, "attention_out_of_it", planted)
    search = search_it_head(small_gpt2, n_pairs=10)
    assert search.found
    assert search.head == (1, 2)
    assert search.mean == pytest.approx(1)
    assert search.rank == 1


def test_referents_of_the_readers_own(toy):
    """With two texts and two nouns of the reader's own, both shares are named; a noun that is not there is said."""
    a, b = "The dog left the park because it was too old.", "The dog left the park because it was too wet."
    step = lensons.AttentionLesson(toy, a, b, referents=("dog", "park")).it()
    assert "“dog”" in str(step.html())
    step = lensons.AttentionLesson(toy, a, b, referents=("dog", "unicorn")).it()
    assert "“unicorn”. It does not stand" in str(step.html())


def test_marks_are_explained_where_they_are_seen(toy):
    """What ␣ and ⟨BOS⟩ stand for is said in the first step where a chip shows them, and only there."""
    shown = str(lensons.AttentionLesson(toy).it().html())
    assert "The mark ␣ stands for a space" in shown
    assert "⟨BOS⟩ marks the beginning" in shown
    without = str(lensons.AttentionLesson(toy, [5, 6, 7], [5, 6, 8]).it().html())
    assert "⟨BOS⟩ marks the beginning" not in without


# --- questions --------------------------------------------------------------------------------------------------


def test_answers_are_computed(lesson, toy):
    """The right answers of the key are right by the trace, and every choice has its reason."""
    key = lesson.questions
    trace = lensons.trace(toy, SENTENCE)
    assert list(key) == STEPS
    assert key["it"].choices[key["it"].answer] == f"Rows from position {lesson.it().data['first_changed']} on."
    grid = lesson.grid()
    row = trace.head(grid.data["head"]).pattern[grid.data["query"]]
    assert key["grid"].choices[key["grid"].answer].endswith(f"at position {int(row.argmax())}")
    found = re.search(r"are (.*?)\. The same three of the key are (.*?)\. Multiply", key["queries-and-keys"].text)
    a, b = ([float(x.replace("−", "-")) for x in part.split(", ")] for part in found.groups())
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    assert key["queries-and-keys"].answer == (0 if dot > 0 else 1)
    gap = float(re.search(r"is ([\d.]+) higher", key["scores-to-shares"].text)[1])
    times = float(key["scores-to-shares"].choices[key["scores-to-shares"].answer].split()[0])
    assert times == pytest.approx(math.exp(gap), rel=0.02)
    best = lesson.evidence.table.top("previous_token", 1)[0][0]
    assert key["many-heads"].choices[key["many-heads"].answer] == f"Head {best}"
    text = key["mixing-values"].text
    head = trace.head(re.search(r"Head (\S+),", text)[1])
    query = lesson.evidence.query
    parts = [float(head.pattern[query, k] * (head.v[k] @ trace.w_o[head.name]).norm()) for k in range(query + 1)]
    most = parts.index(max(parts))
    assert f"at position {most}:" in key["mixing-values"].choices[key["mixing-values"].answer]
    assert most != int(head.pattern[query].argmax())
    for question in key.values():
        assert len(set(question.choices)) == len(question.choices) == len(question.reasons)
        assert all(question.reasons)
        assert question.reason == question.reasons[question.answer]


def test_the_key_follows_the_sentence(small_gpt2):
    """Other sentences, other keys: the same text twice has no row that differs; a change at the front all of them."""
    same = lensons.AttentionLesson(small_gpt2, SENTENCE, SENTENCE).it()
    assert same.question.choices[same.question.answer] == "No row."
    assert "no row differs" in str(same.html())
    early = lensons.AttentionLesson(small_gpt2, "A animal was tired.", "B animal was tired.").it()
    assert "Rows from position 1 on" in early.question.choices[early.question.answer]


def test_each_question_on_many_heads_and_rows(lesson):
    """On every row, the share question's answer is e to the gap; the most-adding token is never the heaviest."""
    trace = lesson.trace
    for query in range(1, len(trace)):
        question = who_adds_most(Words("attention", "mixing-values"), trace, query, lesson.evidence.head)
        if question is not None:
            assert len(question.choices) >= 2
        for name in ("0.0", "2.3"):
            head = trace.head(name)
            scores = head.scores[query, : query + 1]
            asked = share_of_higher(Words("attention", "scores-to-shares"), trace, scores, head, query)
            gap = re.search(r"is ([\d.]+) higher", asked.text)
            assert float(asked.choices[asked.answer].split()[0]) == pytest.approx(math.exp(float(gap[1])), rel=0.02)


def test_a_worksheet_has_no_answers(lesson, tmp_path):
    """The worksheet prints the questions and their choices, and gives no answer away, not even in its source."""
    text = lesson.worksheet(tmp_path / "worksheet.html").read_text(encoding="utf-8")
    plain = text.replace("&#34;", '"').replace("&#39;", "'")
    for question in lesson.questions.values():
        assert question.text in plain
        assert all(choice in plain for choice in question.choices)
        assert not any(reason[:30] in plain for reason in question.reasons)
    assert "<details class" not in text
    assert "data-answer" not in text


# --- any text, any model ----------------------------------------------------------------------------------------

TEXTS = {
    "one token": "I",
    "two tokens": "It",
    "no it": "Mary gave a drink to John.",
    "emoji, Chinese, newlines": "The \U0001f4a9 cat\n\n地 sat\t。",
    "braces and markup": "{head} [[query]] [@x] **x** <b>y</b> </script>",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_any_text_can_be_taught_on(small_gpt2, tmp_path, text):
    """The lesson runs on texts of one and two tokens, without "it", with emoji, newlines and markup."""
    lesson = lensons.AttentionLesson(small_gpt2, text)
    page = lesson.save(tmp_path / "x.html").read_text(encoding="utf-8")
    for step in STEPS:
        assert f'id="{step}"' in page
    for step in lesson.steps:
        assert step.question is not None or step.data["no_question"]


def test_one_token_alone_says_why(small_gpt2):
    """One token, without BOS: the grid has one cell, and says so in one sentence."""
    step = lensons.AttentionLesson(small_gpt2, [7]).grid()
    assert "one cell" in step.data["not_possible"]
    assert step.data["not_possible"] in str(step.html())


def test_one_text_shows_the_lessons_pair_and_says_so(small_gpt2):
    """A reader's single text can't be compared with anything: step 1 shows the lesson's own pair, and says so."""
    step = lensons.AttentionLesson(small_gpt2, "Mary gave a drink to John.").it()
    assert "You gave one text" in str(step.html())
    assert step.data["it"] is not None


def test_a_text_of_200_tokens(tmp_path, gpt2_folder):
    """A long text is taught on too, in a page under 3 MB."""
    from transformers import GPT2Config, GPT2LMHeadModel

    folder = tmp_path / "long"
    folder.mkdir()
    for file in gpt2_folder.glob("tokenizer*"):
        (folder / file.name).write_bytes(file.read_bytes())
    torch.manual_seed(0)
    vocab = json.loads((gpt2_folder / "config.json").read_text())["vocab_size"]
    GPT2LMHeadModel(
        GPT2Config(vocab_size=vocab, n_positions=256, n_embd=256, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0)
    ).save_pretrained(folder)
    lesson = lensons.AttentionLesson(folder, "street " * 200)
    assert len(lesson.trace) >= 200
    assert lesson.save(tmp_path / "x.html").stat().st_size < 3_000_000


def test_a_model_that_cannot_read_the_lessons_sentences(tmp_path, gpt2_folder):
    """A context of 10 tokens: step 1 says in one sentence why it can't be shown; the other steps are there."""
    from transformers import GPT2Config, GPT2LMHeadModel

    for file in gpt2_folder.glob("tokenizer*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    vocab = json.loads((gpt2_folder / "config.json").read_text())["vocab_size"]
    GPT2LMHeadModel(
        GPT2Config(vocab_size=vocab, n_positions=10, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
    ).save_pretrained(tmp_path)
    lesson = lensons.AttentionLesson(tmp_path, "It was")
    assert "can't read them" in lesson.it().data["not_possible"]
    assert lesson.save(tmp_path / "x.html").is_file()


def test_texts_of_unequal_length_say_so(small_gpt2):
    """Two texts that differ in length are lined up from the front, and the step says so."""
    step = lensons.AttentionLesson(small_gpt2, "the animal was wide", "the animal was").it()
    assert "differ in length" in str(step.html())
    assert step.question.choices[step.question.answer] == "No row."


def test_another_kind_of_model(small_llama, tmp_path):
    """Grouped keys and rotary positions: the lesson runs, says both, and shows that model's own scale."""
    lesson = lensons.AttentionLesson(small_llama)
    assert lesson.save(tmp_path / "x.html").stat().st_size > 100_000
    assert "√6" in str(lesson.scores_to_shares().html())
    html = str(lesson.queries_and_keys().html())
    assert "turned by an angle" in html
    assert "2 sets serve 6 heads" in html


@pytest.mark.smollm2
def test_smollm2(smollm2, few_prompts, tmp_path):
    """A real model of another kind, 30 layers of 9 heads: every step is there, in a page under 3.5 MB."""
    lesson = lensons.AttentionLesson(smollm2)
    page = lesson.save(tmp_path / "x.html")
    assert page.stat().st_size < 3_500_000
    assert all(f'id="{step}"' in page.read_text(encoding="utf-8") for step in STEPS)


def test_a_tampered_model_is_not_taught_on(gpt2_folder):
    """Where a number does not agree with the model's own hooks there is no lesson, but an error."""
    raw = lensons.load_model(gpt2_folder).raw
    raw.add_hook("blocks.1.attn.hook_z", lambda value, hook: value * 1.1)
    with pytest.raises(CheckError):
        lensons.AttentionLesson(raw)


def test_the_toy_is_never_called_gpt2(lesson, page):
    """A page made on the toy says whose numbers they are."""
    assert "It is not GPT-2." in page
    assert "not GPT-2" in lesson._made_with()
    assert "'toy'" in lesson._made_with()


def test_published_roles_stand_beside_what_was_measured(gpt2_folder, tmp_path, monkeypatch):
    """For GPT-2 each published role has its measured score and rank beside it; for other models there is none."""
    from lensons.lessons import step_heads

    assert "published" not in {f.kind for f in lensons.AttentionLesson(gpt2_folder).many_heads().figures}
    lesson = lensons.AttentionLesson(gpt2_folder)
    object.__setattr__(lesson.evidence, "model", lensons.load_model(gpt2_folder))
    object.__setattr__(lesson.evidence.model, "name", "gpt2")
    monkeypatch.setattr(step_heads, "ROLES", {"induction": ("1.2",), "previous_token": ("0.3",)})
    (table,) = [f.table for f in lesson.many_heads().figures if f.kind == "published"]
    scores = lesson.evidence.table
    assert [row[0] for row in table.rows] == ["L1H2", "L0H3"]
    for row, kind in zip(table.rows, ("induction", "previous_token"), strict=True):
        head = (int(row[0][1]), int(row[0][3]))
        assert row[2] == float(scores.values[kind][head])
        assert row[3] == 1 + [h for h, _ in scores.top(kind, 8)].index(head)


def test_evidence_is_lazy(small_gpt2):
    """A step waits for what it needs and no more: the grid scores no head and takes none out."""
    lesson = lensons.AttentionLesson(small_gpt2)
    lesson.grid()
    lesson.mixing_values()
    assert not {"table", "repeated", "search"} & set(vars(lesson.evidence))
    lesson.many_heads()
    assert "repeated" in vars(lesson.evidence)


@pytest.mark.loose
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"text": ""}, "empty"),
        ({"text": "x " * 500}, "at most"),
        ({"referents": ("animal",)}, "two words"),
        ({"referents": ("animal", "")}, "two words"),
        ({"other": "x"}, "Give both"),
    ],
)
def test_bad_input(small_gpt2, options, says):
    """What cannot be taught on is one clear error, and at once."""
    with pytest.raises(InputError, match=says):
        lensons.AttentionLesson(small_gpt2, **options)


# --- words ------------------------------------------------------------------------------------------------------


def test_every_term_and_source_is_there(page):
    """The glossary has the thirteen key terms; the ten sources are listed; every link on the page has its place."""
    assert set(TERMS) <= set(glossary())
    assert set(WORKS) == set(sources())
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)
    assert set(re.findall(r'aria-describedby="([^"]+)"', page)) <= set(ids)
    ours = [i for i in ids if "-term-" in i or i in STEPS]
    assert len(ours) == len(set(ours))


def _sentences(value):
    if isinstance(value, dict):
        for key, part in value.items():
            if key not in ("formula", "own_model"):
                yield from _sentences(part)
    elif isinstance(value, list):
        for part in value:
            yield from _sentences(part)
    elif isinstance(value, str):
        clean = re.sub(r"\[@\w+\]", "", value)
        yield from (part for part in re.split(r"(?<=[.?!:;])[”’]?\s+", clean) if part)


@pytest.mark.parametrize("name", ["attention", "induction", "page", "glossary"])
def test_sentences_are_short(name):
    """No sentence or clause that a learner reads has more than 20 words."""
    for sentence in _sentences(text_file(name)):
        assert len(sentence.split()) <= 20, sentence


def test_a_term_is_explained_once_a_step_and_marks_are_safe():
    """A term is explained where it first comes up; what is filled in is text, whatever marks it holds."""
    words = Words("attention", "grid")
    html = str(words._html("[[key]] and [[keys|key]] {x}", {"x": "<b>[[query]]</b> {y}"}))
    assert html.count('class="meaning"') == 1
    assert "&lt;b&gt;[[query]]&lt;/b&gt; {y}" in html
    for text, says in (("[[unheard of]]", "glossary"), ("[@nobody1999]", "references.bib"), ("{gone}", "asks for")):
        with pytest.raises(InputError, match=says):
            words._html(text, {})


def test_which_rows_with_no_it(small_gpt2):
    """Without "it" the choice about its row is left out."""
    e = Evidence(small_gpt2, "the animal was tired", "the animal was wide")
    question = which_rows(Words("attention", "it"), e.pair, None)
    assert not any("“it”" in choice for choice in question.choices)
