"""The attention lesson: true to the model, on any text, with answers that are computed."""

import json
import math
import re

import pytest
import torch

import lensons
from lensons.errors import CheckError, FileError, InputError
from lensons.figures import Figure
from lensons.lessons import Step, copy_notebooks
from lensons.lessons.words import glossary, prose, sources
from tests.conftest import OTHER, SENTENCE

STEPS = ["it", "grid", "queries-and-keys", "scores-to-shares", "mixing-values", "many-heads"]
TERMS = ["attention", "token", "GPT-2", "query", "key", "value", "dot product", "softmax", "causal attention",
         "attention head", "induction head", "attention sink", "transformer"]  # fmt: skip
WORKS = ["vaswani2017", "radford2019", "gpt2card", "gpt2config", "google2017", "olsson2022", "elhage2021", "wang2022",
         "xiao2023", "jurafsky"]  # fmt: skip


@pytest.fixture(scope="module")
def lesson(toy):
    return lensons.AttentionLesson(toy)


def test_six_steps_with_figures_and_words(lesson):
    """Six steps in order, each with a figure, a lead, what it does not show, and a form for notebooks."""
    assert [step.name for step in lesson.steps] == STEPS
    assert sum(step.minutes for step in lesson.steps) <= 15
    for step in lesson.steps:
        assert isinstance(step, Step)
        assert step.figures
        assert all(isinstance(figure, Figure) for figure in step.figures)
        assert step.not_shown
        html = step._repr_html_()
        assert step.title.split('"')[0].strip() in html
        assert "<script" not in html


def test_the_row_of_it_cannot_change(lesson):
    """Step 1: with the clue at the end no row before the changed word differs; the row of "it" is among them."""
    data = lesson.it().data
    gaps = data["row_difference"]
    first = data["first_changed"]
    assert max(gaps[:first]) <= 1e-5
    assert max(gaps[first:]) > 1e-3
    assert data["front_first_changed"] < len(gaps)
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


def test_the_follower_is_measured_on_pairs_it_was_not_chosen_on(lesson, toy):
    """The head that follows "it": its mean move and rank equal a slow loop over the other thirty pairs."""
    from lensons.lessons.evidence import word_position
    from lensons.pairs import it_pairs

    follower = lesson.it().data["follower"]
    moves = []
    for pair in it_pairs(60, seed=0, clue="front")[30:]:
        leaning = []
        for text in (pair.text_a, pair.text_b):
            trace = lensons.trace(toy, text)
            it = word_position(trace.tokens, "it")
            a, b = (word_position(trace.tokens, noun) for noun in (pair.noun_a, pair.noun_b))
            leaning.append(trace.pattern[:, :, it, a] - trace.pattern[:, :, it, b])
        moves.append((leaning[0] - leaning[1]) / 2)
    mean = torch.stack(moves).mean(0)
    assert follower.moved == pytest.approx(float(mean[follower.head]), abs=1e-5)
    assert follower.rank == 1 + int((mean > mean[follower.head] + 1e-7).sum())
    assert follower.low <= follower.moved <= follower.high


def test_numbers_of_steps_three_to_five_are_the_traces(lesson, toy):
    """For a chosen head, query and key: dot, scores, shares and lengths are those of the trace."""
    trace = lensons.trace(toy, SENTENCE)
    for name, query, key in (("1.2", 7, 3), ("L0H1", 12, 12), ((3, 0), 1, 0)):
        head = trace.head(name)
        dots = lesson.queries_and_keys(head=name, query=query, key=key)
        assert dots.data["dot"] == pytest.approx(float(head.q[query] @ head.k[key]), abs=1e-3, rel=1e-5)
        assert dots.data["dots"][key] == pytest.approx(dots.data["dot"])
        table = dots.figures[0].table
        assert sum(row[3] for row in table.rows[:-1]) == pytest.approx(table.rows[-1][3])
        shares = lesson.scores_to_shares(head=name, query=query)
        assert shares.data["scores"] == pytest.approx(head.scores[query, : query + 1].tolist(), abs=1e-5)
        assert shares.data["shares"] == pytest.approx(head.pattern[query, : query + 1].tolist(), abs=1e-6)
        mixing = lesson.mixing_values(head=name, query=query)
        lengths = [float((head.v[k] @ trace.w_o[head.name]).norm()) for k in range(query + 1)]
        assert mixing.data["lengths"] == pytest.approx(lengths, rel=1e-4)
        for row in mixing.figures[1].table.rows:
            assert row[-2] == pytest.approx(row[-1], abs=1e-4)
            assert sum(row[1:-2]) == pytest.approx(row[-2], abs=1e-9)


def test_answers_are_computed(lesson, toy):
    """The right answers of the key are right by the trace."""
    key = lesson.questions
    trace = lensons.trace(toy, SENTENCE)
    assert key["it"].answer == 1
    grid = lesson.grid()
    row = trace.head(grid.data["head"]).pattern[grid.data["query"]]
    assert f"(position {int(row.argmax())})" in key["grid"].choices[key["grid"].answer]
    numbers = [
        [float(x.replace(",", "")) for x in part.split(", ")]
        for part in re.findall(r"are ([-.\d, e]+?)[;.] ", key["queries-and-keys"].text)
    ]
    dot = sum(a * b for a, b in zip(*numbers, strict=True))
    assert key["queries-and-keys"].answer == (0 if dot > 0 else 1)
    assert "7.4" in key["scores-to-shares"].choices[key["scores-to-shares"].answer]
    best = str(lesson.evidence.table.top("previous_token", 1)[0][0])
    assert key["many-heads"].choices[key["many-heads"].answer] == best
    if "mixing-values" in key:
        data = lesson.mixing_values().data
        parts = [w * n for w, n in zip(data["weights"], data["lengths"], strict=True)]
        most = parts.index(max(parts))
        assert f"(position {most})" in key["mixing-values"].choices[key["mixing-values"].answer]
        assert most != data["weights"].index(max(data["weights"]))
    for question in key.values():
        assert len(set(question.choices)) == len(question.choices)
        assert question.reason


def test_a_worksheet_has_no_answers(lesson, tmp_path):
    """The worksheet prints the questions and their choices, and gives no answer away."""
    text = lesson.worksheet(tmp_path / "worksheet.html").read_text(encoding="utf-8")
    for question in lesson.questions.values():
        assert str(prose("")) + question.choices[0][:12].split("<")[0] in text.replace("&#34;", '"').replace(
            "&#39;", "'"
        )
        assert question.reason[:20] not in text
    assert "<details" not in text


TEXTS = {
    "one token": "It",
    "two tokens": "It was",
    "no it": "Mary gave a drink to John.",
    "emoji, Chinese, newlines": "The \U0001f4a9 cat\n\n地 sat\t。",
    "braces and markup": "{head} [[query]] **x** <b>y</b> </script>",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_any_text_can_be_taught_on(small_gpt2, tmp_path, text):
    """The lesson runs on texts of one and two tokens, without "it", with emoji, newlines and markup."""
    lesson = lensons.AttentionLesson(small_gpt2, text)
    page = lesson.save(tmp_path / "x.html").read_text(encoding="utf-8")
    for step in STEPS:
        assert f'id="{step}"' in page
    for step in lesson.steps:
        assert step.question is not None or step.data.get("no_question")


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
        GPT2Config(vocab_size=vocab, n_positions=256, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0)
    ).save_pretrained(folder)
    lesson = lensons.AttentionLesson(folder, "street " * 200)
    assert len(lesson.trace) >= 200
    assert lesson.save(tmp_path / "x.html").stat().st_size < 3_000_000


def test_texts_of_unequal_length_say_so(small_gpt2):
    """Two texts that differ in length are compared over their common length, and the caption says so."""
    step = lensons.AttentionLesson(small_gpt2, "the animal was wide", "the animal was").it()
    assert "differ in length" in str(step.figures[0].caption)


def test_another_kind_of_model(small_llama, tmp_path):
    """Grouped keys and rotary positions: the lesson runs, and shows that model's own scale."""
    lesson = lensons.AttentionLesson(small_llama)
    assert lesson.save(tmp_path / "x.html").stat().st_size > 100_000
    assert "√6" in str(lesson.scores_to_shares().html())


def test_a_tampered_model_is_not_taught_on(gpt2_folder):
    """Where a number does not agree with the model's own hooks there is no lesson, but an error."""
    raw = lensons.load_model(gpt2_folder).raw
    raw.add_hook("blocks.1.attn.hook_z", lambda value, hook: value * 1.1)
    with pytest.raises(CheckError):
        lensons.AttentionLesson(raw)


def test_the_toy_is_never_called_gpt2(lesson, tmp_path):
    """A page made on the toy says whose numbers they are."""
    page = lesson.save(tmp_path / "x.html").read_text(encoding="utf-8")
    assert "It is not GPT-2." in page
    assert "not GPT-2" in lesson._made_with()
    assert "'toy'" in lesson._made_with()


def test_every_term_and_source_is_there(lesson, tmp_path):
    """The glossary has the thirteen key terms; the ten sources are listed; every link on the page has its place."""
    assert set(TERMS) <= set(glossary())
    assert set(WORKS) <= set(sources())
    page = lesson.save(tmp_path / "x.html").read_text(encoding="utf-8")
    ids = set(re.findall(r'\bid="([^"]+)"', page))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= ids


@pytest.mark.loose
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"text": ""}, "empty"),
        ({"text": "x " * 500}, "at most"),
        ({"referents": ("animal",)}, "two words"),
        ({"referents": ("animal", "")}, "two words"),
    ],
)
def test_bad_input(small_gpt2, options, says):
    """What cannot be taught on is one clear error."""
    with pytest.raises(InputError, match=says):
        lensons.AttentionLesson(small_gpt2, **options)
    with pytest.raises(lensons.errors.HeadIndexError):
        lensons.AttentionLesson(small_gpt2).grid(head="7.7")


def test_notebooks_are_copied(tmp_path):
    """The lesson's notebook arrives as valid nbformat 4, with its code in cells; a bad place is one clear error."""
    (path,) = copy_notebooks(tmp_path / "new")
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["nbformat"] == 4
    code = ["".join(cell["source"]) for cell in document["cells"] if cell["cell_type"] == "code"]
    assert "import lensons" in code[0]
    assert all(not math.isnan(len(cell)) and "```" not in cell for cell in code)
    assert len({cell["id"] for cell in document["cells"]}) == len(document["cells"])
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError):
        copy_notebooks(tmp_path / "file")


def test_the_notebooks_code_runs(tmp_path):
    """Every code cell of the lesson's notebook runs, top to bottom."""
    (path,) = copy_notebooks(tmp_path)
    names: dict = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), "cell", "exec"), names)
    assert isinstance(names["lesson"], lensons.AttentionLesson)
