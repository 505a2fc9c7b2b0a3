"""Text to token ids and back: a thin layer over the ``tokenizers`` library, and text from a stream of tokens.

Read are byte-level BPE tokenizers (those of Llama 3, Qwen2 and this book): every
token stands for some bytes, and a character of several bytes may be spread
over several tokens. UTF-8 is decoded only where the bytes are complete.
"""

from __future__ import annotations

import codecs
import json
import operator
from collections.abc import Iterable
from pathlib import Path

import tokenizers


def _byte_of_character() -> dict[str, int]:
    """Return the byte that each of the 256 characters of byte-level BPE stands for (Radford et al. 2019, GPT-2).

    Printable Latin-1 characters stand for themselves; the other bytes, in order, are written as U+0100 and up.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(rest)}


BYTE_OF_CHARACTER = _byte_of_character()


def _is_byte_level(decoder: dict | None) -> bool:
    """Tell whether a tokenizer.json's decoder does nothing but turn characters into bytes."""
    kind = (decoder or {}).get("type")
    if kind == "Sequence":
        return all(_is_byte_level(part) for part in decoder["decoders"]) and bool(decoder["decoders"])
    return kind == "ByteLevel"


class Tokenizer:
    """Encodes and decodes. ``vocab_size`` counts the entries, ``end_id`` is the token that ends a text, or None."""

    def __init__(self, library: tokenizers.Tokenizer, end_id: int | None = None) -> None:
        library.no_truncation()  # a file may carry a training run's limits
        library.no_padding()
        self.library, self.end_id = library, end_id
        self.vocab_size = library.get_vocab_size(with_added_tokens=True)

    @classmethod
    def load(cls, folder: Path | str) -> Tokenizer:
        """Read tokenizer.json, and from tokenizer_config.json which token ends a text.

        Without tokenizer_config.json the end is the only special token, if there is one. Raises
        FileNotFoundError where tokenizer.json is missing, ValueError where it
        cannot be read, is not byte-level, or lacks the token that is to end a text.
        """
        path, settings = Path(folder) / "tokenizer.json", Path(folder) / "tokenizer_config.json"
        if not path.is_file():
            raise FileNotFoundError(f"{path} does not exist")
        text = path.read_text(encoding="utf-8")
        try:
            library = tokenizers.Tokenizer.from_str(text)
            config = json.loads(settings.read_text(encoding="utf-8")) if settings.is_file() else None
        except Exception as error:  # the library raises bare Exceptions
            raise ValueError(f"{path}: cannot be read: {error}") from error
        if not _is_byte_level(json.loads(text).get("decoder")):
            raise ValueError(f"{path}: its decoder is not ByteLevel, so its tokens are not plain bytes")
        if config is None:
            special = [i for i, token in library.get_added_tokens_decoder().items() if token.special]
            return cls(library, special[0] if len(special) == 1 else None)
        end = config.get("eos_token")
        end = end.get("content") if isinstance(end, dict) else end
        if end is not None and library.token_to_id(end) is None:
            raise ValueError(f"{settings}: eos_token={end!r} is not in tokenizer.json")
        return cls(library, None if end is None else library.token_to_id(end))

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, as tokenizer.json says: a special token written out in the text becomes that token.

        Raises ValueError for what is no str, and for a str with half a surrogate pair.
        """
        if not isinstance(text, str):
            raise ValueError(f"text={text!r} is of type {type(text).__name__}, not str")
        try:
            return self.library.encode(text).ids
        except TypeError as error:
            raise ValueError(f"text={text!r} cannot be written as UTF-8") from error

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids, special tokens written out; bytes that are no UTF-8 become U+FFFD.

        Raises ValueError for an id outside 0 … vocab_size - 1.
        """
        ids = [self._checked(i) for i in ids]
        return self.library.decode(ids, skip_special_tokens=False)

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes that an id stands for; raises ValueError for an id outside 0 … vocab_size - 1."""
        written = self.library.id_to_token(self._checked(token))
        try:
            return bytes(BYTE_OF_CHARACTER[character] for character in written)
        except KeyError:  # an added token may hold any character
            return written.encode()

    def _checked(self, token: int) -> int:
        """Return an id as an int; raise ValueError where it has no entry."""
        index = operator.index(token) if hasattr(token, "__index__") else -1  # numpy's and torch's whole numbers, too
        if isinstance(token, bool) or not 0 <= index < self.vocab_size:
            raise ValueError(f"id={token!r} is not in 0 … {self.vocab_size - 1}")
        return index


class StreamDecoder:
    """Text from tokens as they come: ``push`` returns what has become certain, ``flush`` the rest at the end.

    A character whose bytes are not all there is held back. All that was returned,
    joined, is ``tokenizer.decode`` of all the ids.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._bytes = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        """Take up one id and return the text that no later token can change; raises ValueError for an unknown id."""
        return self._bytes.decode(self.tokenizer.token_bytes(token))

    def flush(self) -> str:
        """End the text: return U+FFFD for an unfinished character, else nothing. The next push begins a new text."""
        return self._bytes.decode(b"", final=True)
