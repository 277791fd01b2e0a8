"""Tasks from a Label Studio server, and predictions back to them: a small stand-in for its SDK, and the real thing.

The slow test starts a real server. It needs label-studio-sdk here, and the program label-studio on the path or where
PIDUAL_LABEL_STUDIO says (in an environment of its own: it needs other versions of NumPy than we do).
"""

import contextlib
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import types
import urllib.request
from types import SimpleNamespace

import pytest
from command_line import run_cli, write_key
from export_files import annotation, review_tasks

from pidual.api.run import Run
from pidual.run.decisions import Store

httpx = pytest.importorskip("httpx")
pytestmark = pytest.mark.shapes_unchecked
KEY = "0123456789abcdef0123456789abcdef01234567"
URL = "http://label.example.org"
PROJECT = ["--project", "7"]
FIT = ["--quiet", "--keep-going", "--out", "run"]


class ApiError(Exception):
    def __init__(self, status_code, body, headers=None):
        self.status_code, self.body, self.headers = status_code, body, headers

    def __str__(self):  # as that of the SDK: all that was sent
        return f"headers: {self.headers}, status_code: {self.status_code}, body: {self.body}"


class FakeServer:
    """A project, and what has been asked of it."""

    def __init__(self, tasks):
        self.tasks, self.predictions, self.keys, self.error = tasks, [], [], None
        self.choices = {"Positive", "Negative"}

    def client(self, base_url, api_key, httpx_client):
        assert base_url == URL
        assert httpx_client.timeout == httpx.Timeout(60)
        self.keys.append(api_key)
        exports = SimpleNamespace(as_file=self.as_file)
        projects = SimpleNamespace(get=self.get, exports=exports, import_predictions=self.import_predictions)
        return SimpleNamespace(
            projects=projects,
            predictions=SimpleNamespace(list=lambda project: list(self.predictions)),
            annotations=SimpleNamespace(create=self.annotate),
        )

    def get(self, project):
        if self.error is not None:
            raise self.error
        if project != 7:
            raise ApiError(404, {"detail": "No Project matches the given query."})

    def as_file(self, project):
        return io.BytesIO(json.dumps(self.tasks, indent=1).encode())

    def import_predictions(self, project, request):
        assert {each["task"] for each in request} <= {each["id"] for each in self.tasks}
        labels = [each["result"][0]["value"]["choices"][0] for each in request]
        taken = [each for each, label in zip(request, labels, strict=True) if label in self.choices]
        self.predictions += [SimpleNamespace(**each) for each in taken]
        return SimpleNamespace(created=len(taken))

    def annotate(self, id, result, ground_truth):
        of = next(each for each in self.tasks if each["id"] == id)
        of["annotations"].append(annotation(result, 1, ground_truth=ground_truth))


@pytest.fixture
def server(monkeypatch, tmp_path):
    """The stand-in in place of the SDK; an empty folder with a key of pseudonyms; the API key in the environment."""
    tasks = [each | {"id": 1000 + each["id"]} for each in review_tasks(30)]
    found = FakeServer(tasks)
    modules = {
        name: types.ModuleType(f"label_studio_sdk{name}") for name in ("", ".client", ".core", ".core.api_error")
    }
    modules[".client"].LabelStudio, modules[".core.api_error"].ApiError = found.client, ApiError
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, f"label_studio_sdk{name}", module)
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", KEY)
    monkeypatch.chdir(tmp_path)
    write_key(tmp_path)
    return found


def pulled_and_fitted():
    for words in (["data", "pull", URL, *PROJECT, "--out", "films.json"], ["fit", "films.json", *FIT]):
        code, _, err = run_cli(words)
        assert code == 0, err
    return Run.open("run")


def push(*words):
    return run_cli(["export", "run", "--to", "label-studio", "--push", URL, *PROJECT, *words])


def assert_nowhere(folder, key=KEY):
    for path in folder.rglob("*"):
        assert not path.is_file() or key.encode() not in path.read_bytes(), path


def test_tasks_are_pulled_as_label_studio_exports_them(server, tmp_path):
    code, out, err = run_cli(["data", "pull", URL, *PROJECT, "--out", "films.json"])
    assert (code, err) == (0, "")
    assert out == "films.json: 30 tasks with 96 annotations\nNext: pidual fit films.json\n"
    assert (tmp_path / "films.json").read_bytes() == server.as_file(7).read()
    assert server.keys == [KEY]
    assert run_cli(["data", "pull", URL, *PROJECT, "--out", "films.json", "--force"])[:2] == (0, out)


def test_predictions_and_decisions_go_to_the_tasks_they_are_of(server, tmp_path):
    run = pulled_and_fitted()
    with contextlib.closing(Store(run)) as store:
        rows = run.predictions.frame
        row = int(rows.loc[rows["item"].astype(str) == "1001", "row"].iloc[0])
        store.add(row, "change", "Negative", reviewer="r", request="1")
    assert push() == (0, "Project 7: 30 predictions written, 1 ground truths written\n", "")
    items = run.items.set_index(run.items["item"].astype(str))
    assert sorted(each.task for each in server.predictions) == list(range(1001, 1031))
    for each in server.predictions:
        item = items.loc[str(each.task)]
        assert each.model_version == f"pidual latent_truth {run.summary.run_id}"
        assert each.score == round(float(item["consensus_quality"]), 4)
        (found,) = each.result
        control = {"from_name": "sentiment", "to_name": "text", "type": "choices"}
        assert found == {"id": "consensus", **control, "value": {"choices": [item["consensus_label"]]}}
    given = server.tasks[0]["annotations"][-1]
    assert (given["ground_truth"], given["result"][0]["value"]) == (True, {"choices": ["Negative"]})
    assert_nowhere(tmp_path)


def test_a_second_push_writes_nothing_twice(server):
    pulled_and_fitted()
    server.tasks = server.tasks[:28]  # two have been deleted since
    assert push()[:2] == (0, "Project 7: 28 predictions written, 2 tasks deleted\n")
    server.predictions.pop()  # as if the first push had been stopped
    _, out, _ = push("--json")
    found = {"predictions_written": 1, "predictions_already_there": 27, "ground_truths_written": 0, "tasks_deleted": 2}
    assert json.loads(out) == found
    assert len(server.predictions) == 28


def test_predictions_that_label_studio_does_not_take_are_an_error(server):
    pulled_and_fitted()
    server.choices = {"Positive", "Bad"}
    code, out, err = push()
    assert (code, out) == (1, "")
    assert "predictions: not all classes of the run are choices of 'sentiment' in project 7 any more" in err


def test_a_run_of_other_tasks_is_not_pushed(server):
    pulled_and_fitted()
    server.tasks = [each | {"id": each["id"] + 500} for each in server.tasks]
    assert push()[::2] == (2, "Error: Project 7 has none of the tasks that the run was made of; check --project.\n")
    assert server.predictions == []
    assert run_cli(["data", "import", "films.json", "table.csv"])[0] == 0
    assert (
        run_cli(["fit", "table.csv", "--x-text", "text", "--quiet", "--keep-going", "--force", "--out", "run"])[0] == 0
    )
    code, _, err = push()
    assert code == 2
    assert "Only a run with one class per item, fitted on the JSON of a project (`pidual data pull`)" in err


HTML = "<!doctype html><title>Not here</title>"
ERRORS = {
    "refuses the API key": ApiError(401, {"detail": f"Invalid token {KEY}."}, {"x-echo": KEY}),
    "has no project 7 that this key may see": ApiError(404, {"detail": "No Project matches the given query."}),
    "does not answer as Label Studio does (status 404); give the address": ApiError(404, HTML),
    "does not answer as Label Studio does (status 200)": ApiError(200, HTML),
    "does not answer as Label Studio does (status 500)": ApiError(500, {"detail": "no"}),
    "cannot be reached ([Errno 111] Connection refused)": httpx.ConnectError("[Errno 111] Connection refused"),
    "cannot be reached (ReadTimeout)": httpx.ReadTimeout(""),
    "cannot be reached (Illegal header value b'Token ***')": httpx.LocalProtocolError(
        f"Illegal header value b'Token {KEY}'"
    ),
    "cannot be reached (Request URL is missing an 'http://' or 'https://' protocol)": httpx.UnsupportedProtocol(
        "Request URL is missing an 'http://' or 'https://' protocol."
    ),
}


@pytest.mark.parametrize("said", ERRORS)
def test_what_goes_wrong_is_one_sentence_without_the_key(server, tmp_path, said):
    server.error = ERRORS[said]
    code, out, err = run_cli(["data", "pull", URL, *PROJECT, "--out", "films.json"])
    assert (code, out) == (1, "")
    assert err.startswith(f"Error: {URL} {said}")
    assert err.count("\n") == 1
    assert KEY not in err
    assert not (tmp_path / "films.json").exists()


def test_the_key_may_be_in_a_file(server, tmp_path, monkeypatch):
    monkeypatch.delenv("LABEL_STUDIO_API_KEY")
    words = ["data", "pull", URL, *PROJECT, "--out", "films.json"]
    code, _, err = run_cli(words)
    assert code == 2
    assert "The API key is missing; copy it from Account & Settings" in err
    for content, said in ((b"two words", "is not one word of plain characters"), (b"\xff", "cannot be read as a file")):
        (tmp_path / "key").write_bytes(content)
        code, _, err = run_cli([*words, "--api-key-file", "key"])
        assert (code, "two words" in err) == (2, False)
        assert said in err
    (tmp_path / "key").write_text(f"{KEY}\n")
    assert run_cli([*words, "--api-key-file", "key"])[0] == 0
    assert server.keys == [KEY]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["data", "pull", URL, "--out", "films.json"], "Say which project with --project N"),
        (["data", "pull", URL, *PROJECT, "--out", "films.csv"], "let OUT end in .json"),
        (["data", "pull", URL, *PROJECT, "--out", "there.json"], "there.json exists; choose another name"),
        (["export", "run", "--to", "label-studio", "--push", URL], "Pushing takes --to label-studio, --push URL"),
        (["export", "run", "--to", "csv", "--push", URL, *PROJECT], "Pushing takes --to label-studio, --push URL"),
        (["export", "run", "--to", "csv", *PROJECT], "Pushing takes --to label-studio, --push URL"),
    ],
)
def test_calls_that_are_wrong(server, tmp_path, words, said):
    (tmp_path / "there.json").write_text("[]")
    code, _, err = run_cli(words)
    assert code == 2
    assert said in err
    assert server.keys == []


def test_without_the_sdk(server, monkeypatch):
    monkeypatch.setitem(sys.modules, "label_studio_sdk.client", None)
    code, _, err = run_cli(["data", "pull", URL, *PROJECT, "--out", "films.json"])
    assert code == 2
    assert "Label Studio's server needs its SDK" in err
    assert "`pip install 'pidual[label-studio]'` installs it." in err


# --- the real server ---

PROGRAM = os.environ.get("PIDUAL_LABEL_STUDIO") or shutil.which("label-studio")
CONFIG = """<View><Text name="text" value="$text"/><Choices name="sentiment" toName="text">
<Choice value="Positive"/><Choice value="Negative"/></Choices></View>"""
QUIET = {"COLLECT_ANALYTICS": "False", "LATEST_VERSION_CHECK": "False", "SENTRY_DSN": "", "FRONTEND_SENTRY_DSN": ""}
LONGEST = 900  # seconds until a server has made its database and answers


@pytest.fixture
def real_server(tmp_path):
    """A server of Label Studio with a database of its own, on this machine alone, until the test ends."""
    if PROGRAM is None:
        pytest.skip("label-studio is not installed; name the program in PIDUAL_LABEL_STUDIO")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = tmp_path / "server"
    words = ["start", "--no-browser", "--internal-host", "127.0.0.1", "--port", str(port), "--data-dir", str(home)]
    words += ["--username", "boss@example.org", "--password", "only-for-a-test", "--user-token", KEY]
    with (tmp_path / "server.log").open("wb") as log:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        process = subprocess.Popen(
            [PROGRAM, *words, "--enable-legacy-api-token"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=environment | QUIET | {"LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "True", "DJANGO_DB": "sqlite"},
        )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(f"{url}/health", process, tmp_path / "server.log")
        yield url
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for(url, process, log):
    until = time.monotonic() + LONGEST
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=10) as answer:
            if answer.status == 200:
                return
        time.sleep(1)
    pytest.fail(f"label-studio did not start: {log.read_text(errors='replace')[-2000:]}")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the SDK and its libraries
def test_there_and_back_with_a_real_server(real_server, tmp_path, monkeypatch, request):
    sdk = pytest.importorskip("label_studio_sdk.client", reason="needs label-studio-sdk")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", KEY)
    write_key(tmp_path)
    http = httpx.Client(timeout=60)
    request.addfinalizer(http.close)
    client = sdk.LabelStudio(base_url=real_server, api_key=KEY, httpx_client=http)
    other = client.projects.create(title="other", label_config=CONFIG)
    client.projects.import_tasks(other.id, request=[{"data": {"text": f"other {n}"}} for n in range(5)])
    project = client.projects.create(title="films", label_config=CONFIG)
    made = review_tasks(24)
    client.projects.import_tasks(project.id, request=[{"data": each["data"]} for each in made])
    texts = {each.data["text"]: each.id for each in client.tasks.list(project=project.id)}
    second = client.users.create(email="bob@example.org", username="bob", first_name="", last_name="")
    for each in made:
        for who, given in zip((None, second.id), each["annotations"], strict=False):
            more = {} if who is None else {"completed_by": who}
            result, taken = given["result"], given["lead_time"]
            client.annotations.create(id=texts[each["data"]["text"]], result=result, lead_time=taken, **more)

    words = ["--project", str(project.id)]
    code, out, err = run_cli(["data", "pull", real_server, *words, "--out", "films.json"])
    assert code == 0, err
    assert out.startswith("films.json: 24 tasks with 48 annotations\n")
    code, _, err = run_cli(["fit", "films.json", *FIT])
    assert code == 0, err
    run = Run.open("run")
    assert sorted(run.items["item"].astype(str)) == sorted(map(str, texts.values()))
    assert (run.config.data.n_rows, len(run.annotators)) == (48, 2)
    assert "seconds" in {each.name for each in run.config.data.pi}
    reviewed = run.predictions.frame.iloc[0]
    with contextlib.closing(Store(run)) as store:
        truth = {"Positive": "Negative", "Negative": "Positive"}[reviewed["given_label"]]
        store.add(int(reviewed["row"]), "change", truth, reviewer="r", request="1")

    pushed = ["export", "run", "--to", "label-studio", "--push", real_server, *words]
    assert run_cli(pushed)[:2] == (0, f"Project {project.id}: 24 predictions written, 1 ground truths written\n")
    assert run_cli(pushed)[:2] == (0, f"Project {project.id}: 24 predictions already there\n")
    there = list(client.predictions.list(project=project.id))
    items = run.items.set_index(run.items["item"].astype(str))
    assert sorted(each.task for each in there) == sorted(texts.values())
    for each in there:
        item = items.loc[str(each.task)]
        assert each.result[0]["value"] == {"choices": [item["consensus_label"]]}
        assert each.result[0]["from_name"] == "sentiment"
        assert each.score == pytest.approx(item["consensus_quality"], abs=1e-4)
    assert {each.id for each in client.tasks.list(project=project.id)} == set(texts.values())
    given = [each for each in client.annotations.list(id=int(reviewed["item"])) if each.ground_truth]
    assert [each.result[0]["value"] for each in given] == [{"choices": [truth]}]

    def refused(*words, key=KEY):
        monkeypatch.setenv("LABEL_STUDIO_API_KEY", key)
        code, _, err = run_cli(words)
        assert (code > 0, err.count("\n"), key in err) == (True, 1, False)
        return err

    pull = ["data", "pull", real_server, "--out", "new.json"]
    assert "refuses the API key" in refused(*pull, *words, key="f" * 40)
    assert "has no project 999 that this key may see" in refused(*pull, "--project", "999")
    elsewhere = ["data", "pull", f"{real_server}/nowhere", "--out", "new.json", *words]
    assert "does not answer as Label Studio does (status 404)" in refused(*elsewhere)
    down = ["data", "pull", "http://127.0.0.1:9", "--out", "new.json", *words]
    assert "http://127.0.0.1:9 cannot be reached ([Errno 111] Connection refused)" in refused(*down)
    assert "has none of the tasks" in refused(*pushed[:-1], str(other.id))
    assert list(client.predictions.list(project=other.id)) == []
    for path in tmp_path.rglob("*"):
        if path.is_file() and "server" not in path.relative_to(tmp_path).parts[0]:
            assert KEY.encode() not in path.read_bytes(), path
