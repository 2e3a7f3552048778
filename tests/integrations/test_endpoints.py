"""A judge and embeddings behind an OpenAI-compatible server: one of the test's own, over real HTTP."""

import json
import pickle
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from polychromic import UserError
from polychromic.integrations.answers import Comparison
from polychromic.integrations.calls import Calls
from polychromic.integrations.endpoints import EndpointEmbeddings, EndpointJudge


class Server(ThreadingHTTPServer):
    """Sorts solutions by their first letter; embeds texts by their counts of a and b; fails when told to."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests, self.failures, self.say = [], [], None
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, dict(self.headers), body))
        if self.server.failures:
            return self.answer(self.server.failures.pop(0), {"error": "overloaded"})
        if self.path == "/v1/embeddings":
            vectors = [[text.count("a") + 0.1, text.count("b")] for text in body["input"]]
            data = [{"index": i, "embedding": vector} for i, vector in enumerate(vectors)]
            return self.answer(200, {"data": data[::-1]})
        letters = re.findall(r"Solution \d+:\n(.)", body["messages"][1]["content"])
        groups = [sorted(set(letters)).index(letter) for letter in letters]
        text = self.server.say or f'They differ in {{"groups": [9]}} ways.\n{{"groups": {groups}}}'
        return self.answer(200, {"choices": [{"message": {"content": text}}]})

    def answer(self, code, body):
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


PROMPT = [{"role": "user", "content": "How many?"}]
GROUP = ["a one", "b one", "a two", "a one", "c"]


def test_a_group_is_one_request_without_repeats(server):
    judge = EndpointJudge(server.url, "some/model", options={"temperature": 0.5, "max_tokens": 99})
    assert judge(PROMPT, GROUP) == [0, 1, 0, 0, 2]
    [(path, headers, body)] = server.requests
    assert path == "/v1/chat/completions"
    assert "Authorization" not in headers
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("some/model", 0.5, 99)
    assert "How many?" in body["messages"][1]["content"]
    assert body["messages"][1]["content"].count("Solution") == 4
    assert judge(PROMPT, ["x", "x"]) == [0, 0]  # nothing to ask
    assert len(server.requests) == 1


def test_answers_are_kept_in_memory_and_in_a_file(server, tmp_path):
    path = tmp_path / "judge.jsonl"
    first, second = (EndpointJudge(server.url, "m", cache_file=path) for _ in range(2))
    assert first(PROMPT, GROUP) == first(PROMPT, GROUP) == [0, 1, 0, 0, 2]
    assert len(server.requests) == 1
    assert second(PROMPT, GROUP)[:2] == [0, 1]  # made before the file was there
    assert len(server.requests) == 2
    path.write_text(path.read_text() + '["half')  # a run that was killed
    assert EndpointJudge(server.url, "m", cache_file=path)(PROMPT, GROUP) == [0, 1, 0, 0, 2]
    assert len(server.requests) == 2
    EndpointJudge(server.url, "another", cache_file=path)(PROMPT, GROUP)
    assert len(server.requests) == 3


@pytest.mark.parametrize("left", [20, 0, -1])  # characters of the last line, which a kill leaves
def test_a_run_that_was_killed_costs_its_last_answer_only(server, tmp_path, left, caplog):
    path = tmp_path / "judge.jsonl"

    def run(*prompts):
        before = len(server.requests)
        judge = EndpointJudge(server.url, "m", cache_file=path)
        assert [judge(prompt, GROUP) for prompt in prompts] == [[0, 1, 0, 0, 2]] * len(prompts)
        return len(server.requests) - before

    assert run("first", "second") == 2
    first, second = path.read_text().splitlines()
    path.write_text(f"{first}\n{second[:left]}")
    assert run("first", "second", "third") == 2
    assert run("first", "second", "third", "fourth") == 1
    assert run("first", "second", "third", "fourth") == 0
    assert caplog.messages == (
        [] if left == 0 else [f"polychromic: 1 of {n} lines of {path} are damaged and left out" for n in (2, 4, 5)]
    )


def test_damaged_lines_do_not_lose_the_others(server, tmp_path):
    path = tmp_path / "judge.jsonl"
    EndpointJudge(server.url, "m", cache_file=path)(PROMPT, GROUP)
    path.write_bytes(b'["half\n\n5\n[1, 2]\n\x00\xff\n' + path.read_bytes() + b"[]\n")
    assert EndpointJudge(server.url, "m", cache_file=path)(PROMPT, GROUP) == [0, 1, 0, 0, 2]
    assert len(server.requests) == 1


def test_a_file_of_something_else_is_not_added_to(server, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("Some notes.\n")
    with pytest.raises(UserError, match=r"notes\.txt; it holds no answers of a server"):
        EndpointJudge(server.url, "m", cache_file=path)
    path.write_text('["ha')  # the first answer of all, half written
    assert EndpointJudge(server.url, "m", cache_file=path)(PROMPT, GROUP) == [0, 1, 0, 0, 2]


def test_copies_in_another_process_answer_the_same(server, tmp_path):
    path = tmp_path / "judge.jsonl"
    judge = EndpointJudge(server.url, "m", cache_file=path)
    embed = EndpointEmbeddings(server.url, "m")
    labels, vectors = judge(PROMPT, GROUP), embed(GROUP)
    judge_there, embed_there = pickle.loads(pickle.dumps((judge, embed)))
    asked = len(server.requests)
    assert judge_there(PROMPT, GROUP) == labels
    np.testing.assert_array_equal(embed_there(GROUP), vectors)
    assert len(server.requests) == asked  # they know what was known
    assert judge_there("another", GROUP) == labels
    np.testing.assert_array_equal(embed_there(["abb"]), embed(["abb"]))
    assert len(path.read_text().splitlines()) == 2


def test_the_key_comes_from_the_environment(server, monkeypatch):
    with pytest.raises(UserError, match="no such environment variable"):
        EndpointJudge(server.url, "m", api_key_variable="JUDGE_KEY")
    monkeypatch.setenv("JUDGE_KEY", "secret")
    EndpointJudge(server.url, "m", api_key_variable="JUDGE_KEY")(PROMPT, GROUP)
    assert server.requests[0][1]["Authorization"] == "Bearer secret"


def test_a_server_that_fails_is_asked_again_and_then_the_policy_holds(server):
    judge = EndpointJudge(server.url, "m")
    server.failures = [503]
    retried = Comparison(judge=judge, calls=Calls(concurrency=1, retries=1, wait=0.001))
    assert retried.labels_of_groups([PROMPT], [GROUP]) == [([0, 1, 0, 0, 2], False)]
    server.failures = [503, 500]
    skipped = Comparison(judge=judge, calls=Calls(concurrency=1, retries=1, wait=0.001), on_failure="skip")
    assert skipped.labels_of_groups(["another"], [GROUP]) == [(None, True)]
    server.failures = [503]
    with pytest.raises(UserError, match=r"chat/completions answered 503: .*overloaded"):
        judge("a third", GROUP)


@pytest.mark.parametrize("said", ["I cannot.", '{"groups": [0, 1]}', '{"groups": ["a", "b", "c", "d"]}', ""])
def test_an_answer_that_sorts_nothing_is_a_failure_and_not_kept(server, said):
    server.say = said or "…"
    judge = EndpointJudge(server.url, "m")
    with pytest.raises(UserError, match="the judge did not sort 4 solutions; it answered"):
        judge(PROMPT, GROUP)
    server.say = None
    assert judge(PROMPT, GROUP) == [0, 1, 0, 0, 2]


def test_a_server_that_is_not_there():
    with pytest.raises(UserError, match="does not answer"):
        EndpointJudge("http://127.0.0.1:9/v1", "m", timeout=2)(PROMPT, GROUP)
    with pytest.raises(UserError, match="url is 'localhost'"):
        EndpointJudge("localhost", "m")


def test_embeddings_come_in_batches_and_once(server):
    embed = EndpointEmbeddings(server.url, "m", batch_size=2)
    texts = ["aab", "b", "aab", "abb", "a"]
    expected = [[2.1, 1], [0.1, 1], [2.1, 1], [1.1, 2], [1.1, 0]]
    np.testing.assert_allclose(embed(texts), expected)
    assert [len(body["input"]) for _, _, body in server.requests] == [2, 2]
    np.testing.assert_allclose(embed(texts[:2]), expected[:2])
    assert len(server.requests) == 2
    comparison = Comparison(embed=embed, similarity_threshold=0.9)
    np.testing.assert_array_equal(
        comparison.likeness([comparison.of_completions(["a", "aa", "b"])]).labels, [[0, 0, 2]]
    )


def test_a_cache_that_cannot_be_written_costs_no_answer(server, tmp_path, caplog):
    with pytest.raises(UserError, match=r"cache_file is '.*/none/answers', but the folder .*/none does not exist"):
        EndpointJudge(server.url, "m", cache_file=tmp_path / "none" / "answers")
    folder = tmp_path / "lost"
    folder.mkdir()
    judge = EndpointJudge(server.url, "m", cache_file=folder / "answers")
    folder.rmdir()
    assert judge(PROMPT, GROUP) == judge(PROMPT, GROUP) == [0, 1, 0, 0, 2]
    assert len(server.requests) == 1
    assert "answers are remembered in this process only" in caplog.text
