"""Logs of judgements by language models become tables.

The logs in `logs/` were written by Inspect 0.3.285, promptfoo 0.121.20, DeepEval 4.3.1 and lm-evaluation-harness 0.4.13
with models that only pretend to answer, and cut down by hand to the fields that matter and a few more.
"""

import json
import shutil
import zipfile
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from command_line import run_cli

from pidual.data import open_source
from pidual.data.exports import judgements
from pidual.data.exports.judgements import as_label, read_inspect
from pidual.errors import DataError, DataWarning, UsageError

pytestmark = [pytest.mark.shapes_unchecked, pytest.mark.filterwarnings("ignore:.*several metrics")]
LOGS = Path(__file__).parent / "logs"
SEVERAL_METRICS = [
    "inspect.json",
    "promptfoo.json",
    "deepeval_run.json",
    "deepeval_result.json",
    "lm_eval_choices.jsonl",
]


def rows_of(source, *columns):
    """The rows of a source as tuples."""
    return list(zip(*(source.read([column])[column].to_pylist() for column in columns), strict=True))


def write_eval(path, *, compressed_by):
    """The samples of `inspect.json` in a .eval file; Inspect packs each by zstd, and packed them by deflate before."""
    samples = json.loads((LOGS / "inspect.json").read_text())["samples"]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", "{}")
        for sample in samples:
            content = json.dumps(sample).encode()
            member = zipfile.ZipInfo(f"samples/{sample['id']}_epoch_{sample['epoch']}.json")
            if compressed_by == "deflate":
                archive.writestr(member, content, zipfile.ZIP_DEFLATED)
                continue
            half = len(content) // 2  # Inspect writes long samples as several frames
            packed = [pa.compress(part, "zstd", asbytes=True) for part in (content[:half], content[half:])]
            archive.writestr(member, b"".join(packed))
            member.compress_type, member.file_size, member.CRC = 93, len(content), zlib.crc32(content)
    return path


def test_judgements_of_inspect():
    source = open_source(LOGS / "inspect.json")
    assert rows_of(source, "item", "annotator", "label", "metric")[3:6] == [
        ("q1, epoch 1", "model_graded_qa (mockllm/judge-a)", "I", "model_graded_qa"),
        ("q1, epoch 1", "model_graded_qa1 (mockllm/judge-b)", "C", "model_graded_qa"),
        ("q1, epoch 1", "includes", "I", "includes"),
    ]
    assert rows_of(source, "epoch", "model", "tokens", "length", "output")[3] == (
        *(1, "mockllm/tested", 34, 13),
        "Lyon, I think",
    )
    assert rows_of(source, "input", "explanation")[3] == (
        "What is the capital of France? (1)",
        "The answer names a town.\n\nGRADE: I",
    )
    assert all(seconds > 0 for seconds, metric in rows_of(source, "seconds", "metric") if metric != "includes")
    assert source.guess == (["annotator", "seconds", "length", "epoch"], "output", (), None)
    assert rows_of(source, "label")[10] == (None,)  # the judge gave no grade


@pytest.mark.parametrize("compressed_by", ["deflate", "zstd"])
def test_eval_files_hold_what_the_json_does(tmp_path, compressed_by):
    path = write_eval(tmp_path / "log.eval", compressed_by=compressed_by)
    assert read_inspect(str(path)) == read_inspect(str(LOGS / "inspect.json"))
    assert len(rows_of(open_source(path), "label")) == 12


def test_a_scorer_of_several_values_messages_and_attachments(tmp_path):
    log = json.loads((LOGS / "inspect.json").read_text())
    sample = log["samples"][0]
    sample["scores"] = {"style": {"value": {"clear": 1.0, "short": 0.5, "list": [1]}}}
    sample["input"] = [{"content": "attachment://a1"}, {"content": [{"text": "second"}, {"image": "x"}]}]
    sample["attachments"] = {"a1": "first"}
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log | {"samples": [sample]}))
    assert [(row["metric"], row["label"], row["input"]) for row in read_inspect(str(path))] == [
        ("style/clear", "1", "first\nsecond"),
        ("style/short", "0.5", "first\nsecond"),
        ("style/list", None, "first\nsecond"),
    ]


def test_judgements_of_promptfoo():
    source = open_source(LOGS / "promptfoo.json")
    assert rows_of(source, "item", "annotator", "label", "score", "tokens")[3:6] == [
        ("test 1, column 0", "mentions", "fail", 0, None),
        ("test 1, column 0", "llm-rubric (file://grader.js)", "fail", 0.3, 23),
        ("test 1, column 0", "llm-rubric (file://grader.js) 2", "pass", 0.7, 27),
    ]
    assert len(rows_of(source, "item")) == 8  # a set of assertions counts by its parts
    assert rows_of(source, "model", "prompt", "length", "explanation")[0] == (
        *("echo", "Answer briefly: {{question}}", 46),
        "Assertion passed",
    )
    assert source.guess.pi == ["annotator", "tokens", "length"]  # not the score, from which the label follows


@pytest.mark.parametrize("name", ["deepeval_run.json", "deepeval_result.json"])
def test_judgements_of_deepeval(name):
    source = open_source(LOGS / name)
    assert rows_of(source, "item", "annotator", "label", "score", "length")[4:8] == [
        ("case 1", "Correctness [GEval] (judge-a)", "fail", 0.2, 16),
        ("case 1", "Correctness [GEval] (judge-b)", "fail", 0.4, 16),
        ("case 1", "Answer Relevancy (judge-a)", "fail", 0, 16),
        ("case 1", "Short", "pass", 1, 16),
    ]
    assert rows_of(source, "input", "output", "explanation")[4] == (
        "What is the capital of country 1?",
        "A town. A town. ",
        "scored 2 by judge-a",
    )


def test_judgements_of_lm_evaluation_harness():
    assert rows_of(open_source(LOGS / "lm_eval.jsonl"), "item", "annotator", "label", "length", "input")[1:3] == [
        ("1", "exact_match (strict-match)", "0", 3, "What is 1 + 1?"),
        ("0", "exact_match (flexible-extract)", "0", 3, "What is 0 + 1?"),
    ]
    source = open_source(LOGS / "lm_eval_choices.jsonl")
    assert rows_of(source, "item", "annotator", "label")[:2] == [("0", "acc", "0"), ("0", "acc_norm", "0")]
    assert rows_of(source, "margin")[0] == (pytest.approx(0.551267 - 0.109058, abs=1e-6),)
    assert source.guess == (["annotator", "margin"], "input", (), None)


@pytest.mark.filterwarnings("error")
def test_several_metrics_are_told_and_one_can_be_chosen():
    for name in SEVERAL_METRICS:
        with pytest.warns(DataWarning, match="several metrics .* count as answers to one question"):
            open_source(LOGS / name)
    source = open_source(LOGS / "inspect.json", label="model_graded_qa")
    assert set(rows_of(source, "metric")) == {("model_graded_qa",)}
    with pytest.raises(UsageError, match=r"no judgements of 'x'; it has those of model_graded_qa, includes\."):
        open_source(LOGS / "inspect.json", label="x")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.json", {"version": 2, "status": "error", "eval": {}}, "holds no judgements of inspect"),
        ("a.jsonl", {"doc_id": 1, "filtered_resps": [], "metrics": ["acc"]}, "holds no judgements of lm-eval"),
        ("a.json", {"testCases": [{"name": "a", "metricsData": []}]}, "holds no judgements of deepeval"),
        ("a.json", {"results": {"results": [{"testIdx": 0}]}}, "holds no judgements of promptfoo"),
        ("a.eval", {"samples": []}, "holds no judgements of inspect"),
    ],
)
def test_logs_without_judgements(tmp_path, name, content, said):
    path = tmp_path / name
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=said):
        open_source(path)


def test_logs_that_are_not_whole(tmp_path):
    path = tmp_path / "a.json"
    path.write_text((LOGS / "promptfoo.json").read_text()[:-100])
    with pytest.raises(DataError, match=r"a\.json is not JSON \(.*line \d+ column \d+.*\); check that it is whole\."):
        open_source(path)
    packed = write_eval(tmp_path / "a.eval", compressed_by="zstd")
    content = bytearray(packed.read_bytes())
    content[400] ^= 255
    packed.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.eval cannot be read .*write it again\."):
        open_source(packed)


def test_a_zip_that_would_fill_the_memory_is_refused(tmp_path, monkeypatch):
    path = write_eval(tmp_path / "a.eval", compressed_by="zstd")
    monkeypatch.setattr(judgements, "LARGEST", 1000)
    with pytest.raises(DataError, match="when unpacked"):
        open_source(path)


def test_a_zip_writes_nothing_wherever_its_names_lead(tmp_path):
    path = tmp_path / "inner" / "a.eval"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("samples/../../evil.json", "{}")
    with pytest.raises(DataError, match="holds no judgements"):
        open_source(path)
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["a.eval"]


@pytest.mark.parametrize(
    ("value", "label"),
    [("C", "C"), (1.0, "1"), (0.25, "0.25"), (3, "3"), (True, "pass"), (False, "fail"), (float("nan"), None)],
)
def test_labels_of_scores(value, label):
    assert as_label(value) == label


def test_a_log_is_fitted_as_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(LOGS / "deepeval_run.json", "run.json")
    run = json.loads(Path("run.json").read_text())
    cases = [case | {"name": f"{case['name']} {n}"} for n in range(20) for case in run["testCases"]]
    Path("run.json").write_text(json.dumps(run | {"testCases": cases}))
    words = ["fit", "run.json", "--no-x", "--keep-ids", "--out", "run", "--quiet"]
    code, _, err = run_cli(words)
    assert code == 0, err
    code, out, err = run_cli(["annotators", "run"])
    assert code == 0, err
    assert "Correctness [GEval] (judge-b)" in out


def test_promptfoo_by_line_and_a_grader_that_failed(tmp_path):
    results = json.loads((LOGS / "promptfoo.json").read_text())["results"]["results"]
    results[1]["gradingResult"]["componentResults"][1]["metadata"] = {"graderError": True}
    results[1]["response"]["output"] = {"answer": 7}
    path = tmp_path / "out.jsonl"
    path.write_text("".join(json.dumps(result) + "\n" for result in results))
    source = open_source(path)
    assert rows_of(source, "label")[3:6] == [("fail",), (None,), ("pass",)]
    assert rows_of(source, "output")[3] == ('{"answer": 7}',)
