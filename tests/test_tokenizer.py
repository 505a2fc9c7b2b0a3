"""The tokenizer of the book, and text from a stream of tokens: never half a character, in the end the same text."""

import json
import shutil

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from course import models
from tinyserve.configs import PROMPT
from tinyserve.tokenizer import BYTE_OF_CHARACTER, StreamDecoder, Tokenizer

TOKENIZER = Tokenizer.load(models.FOLDER / "course-model")
BYTE = {TOKENIZER.token_bytes(i): i for i in range(TOKENIZER.vocab_size) if len(TOKENIZER.token_bytes(i)) == 1}
ANY_IDS = st.lists(st.integers(0, TOKENIZER.vocab_size - 1), max_size=30)
BYTES = st.binary(max_size=30) | st.text(max_size=10).map(str.encode)


def streamed(ids):
    """What a stream shows, piece by piece, and its rest."""
    stream = StreamDecoder(TOKENIZER)
    return [stream.push(i) for i in ids], stream.flush()


def test_entries():
    assert (TOKENIZER.vocab_size, TOKENIZER.end_id) == (2048, 0)
    assert TOKENIZER.token_bytes(0) == b"<|endoftext|>" and set(BYTE) == {bytes([i]) for i in range(256)}
    assert sorted(BYTE_OF_CHARACTER) == sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    assert len(TOKENIZER.encode(PROMPT)) < len(PROMPT.encode()) / 2


@given(st.text())
def test_any_text_comes_back(text):
    ids = TOKENIZER.encode(text)
    assert TOKENIZER.decode(ids) == text
    assert b"".join(map(TOKENIZER.token_bytes, ids)) == text.encode()
    assert "".join([*streamed(ids)[0], streamed(ids)[1]]) == text


@settings(max_examples=300)
@given(ANY_IDS | BYTES.map(lambda raw: [BYTE[bytes([b])] for b in raw]))
def test_a_stream_ends_as_decode_does(ids):
    pieces, rest = streamed(ids)
    assert "".join(pieces) + rest == TOKENIZER.decode(ids)
    assert TOKENIZER.decode(ids) == b"".join(map(TOKENIZER.token_bytes, ids)).decode(errors="replace")


@settings(max_examples=200)
@given(st.text(max_size=8))
def test_half_a_character_is_never_shown(text):
    ids = [BYTE[bytes([b])] for b in text.encode()]
    shown = ""
    stream = StreamDecoder(TOKENIZER)
    for done, i in enumerate(ids, start=1):
        shown += stream.push(i)
        whole = text.encode()[:done].decode(errors="ignore")  # the characters that are complete
        assert shown == whole
    assert stream.flush() == ""


@given(ANY_IDS, ANY_IDS)
def test_what_is_shown_no_later_token_changes(first, later):
    pieces, _ = streamed(first)
    assert TOKENIZER.decode([*first, *later]).startswith("".join(pieces))


def test_a_character_over_several_tokens_and_one_that_never_ends():
    smile = [BYTE[bytes([b])] for b in "😀".encode()]
    assert streamed(smile) == (["", "", "", "😀"], "")
    assert streamed(smile[:3]) == (["", "", ""], "\ufffd")
    assert streamed([*smile[:2], BYTE[b"a"]]) == (["", "", "\ufffda"], "")
    assert streamed([BYTE[b"\xff"], BYTE[b"\xc3"], BYTE[b"\xa9"]]) == (["\ufffd", "", "é"], "")
    stream = StreamDecoder(TOKENIZER)
    stream.push(smile[0])
    assert stream.flush() == "\ufffd" and stream.push(BYTE[b"b"]) == "b" and stream.flush() == ""


@pytest.mark.parametrize("wrong", [-1, 2048, True, 1.0, "a", None])
def test_an_unknown_id_is_refused(wrong):
    for call in (TOKENIZER.token_bytes, StreamDecoder(TOKENIZER).push, lambda i: TOKENIZER.decode([5, i])):
        with pytest.raises(ValueError, match=r"id=.* is not in 0 … 2047"):
            call(wrong)


def test_ids_may_be_numpys():
    ids = np.array(TOKENIZER.encode(PROMPT), dtype=np.uint16)
    assert TOKENIZER.decode(ids) == PROMPT


@pytest.mark.parametrize(("wrong", "kind"), [(None, "NoneType"), (7, "int"), (b"a", "bytes"), (["a", "b"], "list")])
def test_what_is_no_str_is_refused_as_that(wrong, kind):
    with pytest.raises(ValueError, match=f"is of type {kind}, not str") as raised:
        TOKENIZER.encode(wrong)
    assert str(raised.value).startswith(f"text={wrong!r} ")


def test_half_a_surrogate_pair_is_refused():
    with pytest.raises(ValueError, match=r"text='a\\ud800' cannot be written as UTF-8"):
        TOKENIZER.encode("a\ud800")


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(models.FOLDER / "course-model", tmp_path / "t", ignore=shutil.ignore_patterns("*.safetensors"))
    return tmp_path / "t"


def test_files_that_are_missing_or_do_not_fit(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere/tokenizer.json does not exist"):
        Tokenizer.load(tmp_path / "nowhere")
    path, settings = folder / "tokenizer.json", folder / "tokenizer_config.json"
    settings.write_text(json.dumps({"eos_token": "</s>"}))
    with pytest.raises(ValueError, match="eos_token='</s>' is not in tokenizer.json"):
        Tokenizer.load(folder)
    settings.write_text(json.dumps({"eos_token": {"content": "<|endoftext|>"}}))
    assert Tokenizer.load(folder).end_id == 0
    settings.write_text("{}")
    assert Tokenizer.load(folder).end_id is None
    settings.unlink()
    assert Tokenizer.load(folder).end_id == 0
    for decoder in (None, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}, {"type": "Fuse"}):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"decoder": decoder}))
        with pytest.raises(ValueError, match="its decoder is not ByteLevel"):
            Tokenizer.load(folder)
    path.write_text("{}")
    with pytest.raises(ValueError, match="t/tokenizer.json: cannot be read"):
        Tokenizer.load(folder)


def test_limits_of_a_training_run_are_lifted(folder):
    library = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    library.enable_truncation(4)
    library.enable_padding(length=4)
    library.save(str(folder / "tokenizer.json"))
    assert Tokenizer.load(folder).encode(PROMPT) == TOKENIZER.encode(PROMPT) and Tokenizer.load(folder).encode("a") == TOKENIZER.encode("a")


def test_an_added_token_of_any_characters(folder):
    library = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    library.add_tokens([tokenizers.AddedToken("中 →", special=True)])
    library.save(str(folder / "tokenizer.json"))
    tokenizer = Tokenizer.load(folder)
    ids = tokenizer.encode("a中 →b")
    assert tokenizer.vocab_size == 2049 and 2048 in ids and tokenizer.token_bytes(2048) == "中 →".encode()
    assert tokenizer.decode(ids) == "a中 →b"
