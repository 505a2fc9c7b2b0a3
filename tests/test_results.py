"""Result files: what is written, what is refused, and when a result is stale."""

import json

import pytest

from course import results

CODE = ["tinyserve/model.py", "tinyserve/probe.py"]
DATA = {"cases": [{"seconds": [0.25, 0.5]}], "note": "ein Maß"}


def write(folder, data=DATA, code=CODE, name="some_run"):
    return results.write(name, data, command="python -m some", code=code, folder=folder)


def test_what_is_written_comes_back(tmp_path):
    path = write(tmp_path)
    assert path.name == "some_run.json" and results.load("some_run", tmp_path) == DATA
    facts = results.about("some_run", tmp_path)
    assert set(facts) == set(results.ABOUT_KEYS) and set(facts["code"]) == set(CODE)
    assert facts["machine"]["cpu"] and facts["machine"]["cores"] >= 1 and facts["machine"]["memory_bytes"] > 2**28
    assert facts["threads"] >= 1 and facts["versions"]["torch"] and facts["command"] == "python -m some"
    assert "python -m some on " in results.source("some_run", tmp_path)
    assert "[0.25, 0.5]" in path.read_text(encoding="utf-8")


def test_no_host_no_user_no_path(tmp_path):
    facts = json.loads(write(tmp_path).read_text(encoding="utf-8"))["about"]
    assert set(facts["machine"]) == {"cpu", "cores", "memory_bytes", "system"}
    with pytest.raises(ValueError, match="some_run.json: holds a path"):
        write(tmp_path, {"file": str(results.ROOT / "x")})


def test_stale_names_the_changed_file(tmp_path):
    root, folder = tmp_path / "tree", tmp_path / "results"
    write(folder)
    for file in CODE:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_bytes((results.ROOT / file).read_bytes())
    assert "has not changed" in results.stale("some_run", folder, root)
    assert results.code_state("some_run", folder, root) == "unchanged code"
    with (root / CODE[1]).open("a", encoding="utf-8") as file:
        file.write("# a comment counts\n")
    assert results.stale("some_run", folder, root).endswith(f": {CODE[1]}.")
    assert results.code_state("some_run", folder, root) == f"code changed since: {CODE[1]}"
    (root / CODE[0]).unlink()
    assert CODE[0] in results.stale("some_run", folder, root)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": "Some Run"}, "'Some Run' is not lower-case"),
        ({"name": "../up"}, "is not lower-case"),
        ({"code": []}, "code is empty"),
        ({"code": ["tinyserve/none.py"]}, "'tinyserve/none.py' is not a file of the repository"),
        ({"code": [str(results.ROOT / CODE[0])]}, "by its relative path"),
        ({"code": ["../README.md"]}, "is not a file of the repository"),
        ({"data": {"x": float("nan")}}, "finite numbers"),
        ({"data": {"x": {1, 2}}}, "finite numbers"),
    ],
)
def test_refusals_name_file_and_rule(tmp_path, change, says):
    with pytest.raises(ValueError, match=says):
        write(tmp_path, **change)
    assert not list(tmp_path.iterdir())


def test_reading_names_what_is_wrong(tmp_path):
    write(tmp_path)
    with pytest.raises(FileNotFoundError, match="other.json does not exist; there are: some_run"):
        results.load("other", tmp_path)
    for text, says in (("{", "bad.json: is not JSON"), ('{"data": 1}', "exactly the keys"), ('{"about": {}, "data": 1}', "lacks command")):
        (tmp_path / "bad.json").write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=says):
            results.load("bad", tmp_path)


def test_every_result_of_the_book_can_be_read():
    for path in results.FOLDER.glob("*.json"):
        assert results.load(path.stem) and results.stale(path.stem)
