"""Validity, diversity, creativity and their curves, against counting by hand; evaluation and report of real runs."""

import json

import jax
import numpy as np
import pytest

import polychromic as poly
from polychromic.cli import main
from polychromic.envs.actions import NO_ACTION
from polychromic.finetuning.attempts import Attempts
from polychromic.policies.files import PolicyInfo
from polychromic.tasks.triangle.answers import END, VOCABULARY, triangle_answers
from polychromic.tasks.triangle.discoveries import at_k, discoveries, in_words
from polychromic.tasks.triangle.graphs import graph_of, triangle_numbers
from polychromic.tasks.triangle.report import pooled_discoveries


def attempts_of(answers):
    """Attempts with these answers [K, 9] and nothing else worth looking at."""
    count = len(answers)
    nothing = np.zeros(count)
    return Attempts(
        rewards=nothing.astype(np.float32),
        success=np.zeros(count, bool),
        lengths=np.full(count, 9),
        strategies=np.zeros(count, np.uint64),
        entropies=nothing,
        places=np.zeros((count, 10), np.int64),
        actions=np.asarray(answers, np.int32),
    )


@pytest.fixture(scope="module")
def kinds():
    """Two known triangles and one that is new, of graph 0."""
    graph = graph_of(0)
    known = graph.triangles[np.isin(triangle_numbers(graph.triangles), graph.known_triangles)]
    new = graph.triangles[~np.isin(triangle_numbers(graph.triangles), graph.known_triangles)]
    return triangle_answers(known[:2]), triangle_answers(new[:1])


def test_metrics_of_answers_that_can_be_counted_by_hand(kinds):
    known, new = kinds
    broken = np.full((1, 9), NO_ACTION)
    broken[0, 0] = END
    answers = np.concatenate([known[[0, 0, 1]], new[[0, 0]], np.repeat(broken, 5, axis=0)])
    found = discoveries(attempts_of(answers), (0,))
    assert found["attempts"] == 10
    assert found["ks"] == [1, 2, 3, 4, 6, 8]
    assert found["ceiling"] == {"triangles": [2311], "undiscovered": [399]}
    strict = found["strict"]
    assert strict["validity"] == [0.5]
    assert strict["distinct"] == [3]
    assert strict["creative"] == [1]
    assert at_k(found, "validity_pass_at_k", 2) == pytest.approx(1 - (5 * 4) / (10 * 9), abs=1e-6)
    assert at_k(found, "creativity_pass_at_k", 2) == pytest.approx(1 - (8 * 7) / (10 * 9), abs=1e-6)
    # Distinct triangles in 2 answers: the known pair and the new pair count once, the single one is hit with 2/10.
    once = 1 - (8 * 7) / (10 * 9)
    assert at_k(found, "diff_at_k", 2) == pytest.approx(once + once + 0.2, abs=1e-6)
    assert at_k(found, "creative_at_k", 2) == pytest.approx(once, abs=1e-6)
    assert at_k(found, "diff_at_k", 1) == pytest.approx(0.5, abs=1e-6)
    assert in_words(found).startswith("validity 0.500 (a graph has 2311, 399 to discover)")


def test_pooled_metrics_are_means_over_runs_and_graphs(kinds):
    known, new = kinds
    one = discoveries(attempts_of(np.repeat(known[:1], 8, axis=0)), (0,))
    other = discoveries(attempts_of(np.repeat(new, 8, axis=0)), (0,))
    pooled = pooled_discoveries([one, other])
    assert pooled["bar_attempts"] == 8
    assert pooled["strict"]["validity"] == 1.0
    assert pooled["strict"]["diversity"] == pytest.approx(1.0)
    assert pooled["strict"]["creativity"] == pytest.approx(0.5 / 8)
    assert pooled["strict"]["range"]["creativity"] == [0.0, pytest.approx(1 / 8)]


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """Where `polychromic evaluate triangle` wrote about the shipped base policy."""
    path = tmp_path_factory.mktemp("evaluated") / "triangle.json"
    assert (
        main(["evaluate", "triangle", "--attempts", "512", "--scan", "never", "--seed", "9", "--out", str(path)]) == 0
    )
    return path


def test_the_shipped_base_policy_scores_what_it_claims(evaluated):
    claimed = poly.load_policy("triangle").info.made["scores"]
    evaluation = json.loads(evaluated.read_text())
    found = evaluation["result"]["triangle"]
    validity = np.mean(found["strict"]["validity"])
    spread = (2 * claimed["success"] * (1 - claimed["success"]) / 1536) ** 0.5
    assert abs(validity - claimed["success"]) < 4 * spread
    assert 0.02 < validity < 0.8
    assert validity == pytest.approx(evaluation["result"]["success"]["mean"], abs=1e-4)
    assert found["ceiling"]["undiscovered"] == claimed["undiscovered"]
    assert found["ks"][-1] == 512


@pytest.mark.slow
def test_commands_from_base_policy_to_report(evaluated, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    policy = poly.transformer_policy(num_tokens=1017, context=11, width=8, layers=1, heads=1, critic_width=8)
    info = PolicyInfo(task="triangle", vocabulary=VOCABULARY, configurations=(0, 1, 2))
    poly.save_policy("tiny.safetensors", policy, policy.init(jax.random.key(0)), info)
    small = ["--iterations", "1", "--budget", "12", "--rollouts-per-state", "3", "--forks-per-rollout", "1"]
    small += ["--set-size", "2", "--evaluation-rollouts", "2"]
    assert main(["finetune", "triangle", "--policy", "tiny.safetensors", *small]) == 0
    run = tmp_path / "runs/triangle-poly-ppo-0"
    assert json.loads((run / "config.json").read_text())["config"]["window"] == 0
    assert main(["evaluate", str(run), "--attempts", "2"]) == 0
    assert main(["report", str(evaluated), str(run), "--out", "report.html", "--markdown", "tables.md"]) == 0
    page, tables = (tmp_path / "report.html").read_text(), (tmp_path / "tables.md").read_text()
    assert "barChart" in page
    assert '"creativity_pass_at_k"' in page
    assert "## triangle: Validity, diversity and creativity" in tables
    assert "distinct sets of nodes" not in tables
    assert "| Poly-PPO | original |" in tables
    assert '"viewer":"graph"' in page
    capsys.readouterr()
    assert main(["watch", "tiny.safetensors"]) == 0
    assert "episode 1" in capsys.readouterr().out
    assert main(["watch", "tiny.safetensors", "--gif", "a.gif"]) == 2
    assert "no pictures" in capsys.readouterr().err


def test_wrong_requests_end_in_one_line(capsys):
    assert main(["finetune", "triangle", "--horizon", "12"]) == 2
    assert "horizon is 12, which triangle does not know; it has no options" in capsys.readouterr().err
    assert main(["pretrain", "triangle", "--epochs", "3"]) == 2
    assert "epochs is 3; triangle has no such option, it takes network, steps" in capsys.readouterr().err
