"""JSON is read strictly: what Python would accept and the standard does not is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trace_ves.core.jsonl import DECODER, FINITE_DECODER, StrictJsonError, parse_object

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(':\\"a{,é\x00 ', max_size=6)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
)
OBJECTS = st.dictionaries(st.text(":ab\\", max_size=3), VALUES, max_size=5)


@given(OBJECTS, st.booleans(), st.sampled_from([(",", ":"), (", ", ": "), (" ,", " :"), ("\t,\r", "\t:\n ")]))
@settings(deadline=None, max_examples=60)
def test_what_is_written_is_read_to_the_bit(value: Any, ascii_only: bool, separators: tuple[str, str]) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, separators=separators, allow_nan=False)
    assert repr(parse_object(text.encode())) == repr(json.loads(text))


@st.composite
def texts_with_a_key_twice(draw: Any) -> str:
    """An object that has a key twice somewhere, spelled with escapes and white space."""
    key = draw(st.sampled_from(["a", "b:", ":", "\\u003a", "\\u0061"]))
    first, second, other = (json.dumps(draw(VALUES)) for _ in range(3))
    colon = draw(st.sampled_from([":", " :", ": ", "\t: "]))
    inner = f'{{"{key}"{colon}{first}, "o"{colon}{other}, "{key}":{second}}}'
    places = ["{}", '{{"x": {}}}', '{{"x": [1, {}], "y": "\\u003a:"}}', '{{"x": [{}, ":"]}}']
    return draw(st.sampled_from(places)).format(inner)


@given(texts_with_a_key_twice())
@settings(deadline=None, max_examples=60)
@example('{"a": 1, "a": 2, "b": "\\u003a"}')
@example('{"a": 1, "a" : 2}')
@example('{"x": [1, {"a": 1, "a": 2}], "y": ":"}')
def test_a_key_twice_is_never_missed(text: str) -> None:
    with pytest.raises(ValueError, match="twice in one object"):
        parse_object(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        '{"a": NaN}',
        '{"a": 1.}',
        '{"a": 01}',
        '{"a": 1}x',
        '{"a": "\x01"}',
        '{"a": 1,}',
        "[]",
        "",
        '{"a": "\\ud800"}',
        '{"a": "\\uD800"}',
    ],
)
def test_what_is_no_object_is_said_by_the_strict_reader(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(it has|not valid|expected a JSON object)"):
        parse_object(text.encode())


def test_numbers_too_large_for_a_computer_are_refused_where_it_matters() -> None:
    assert DECODER.decode('{"a": 1e999}') == {"a": float("inf")}
    assert FINITE_DECODER.decode('{"a": [1e9, 2]}') == {"a": [1e9, 2]}
    for digits in ("1e999", "-1e999", "1" * 400 + ".0"):
        with pytest.raises(StrictJsonError, match=rf"^the number {digits[:40]}, which is too large$"):
            FINITE_DECODER.decode(f'{{"a": {digits}}}')
    with pytest.raises(StrictJsonError, match=r"^NaN, which is not a JSON number$"):
        FINITE_DECODER.decode('{"a": NaN}')
    with pytest.raises(StrictJsonError, match=r"^the key 'a' twice in one object$"):
        FINITE_DECODER.decode('{"a": 1, "a": 2}')
