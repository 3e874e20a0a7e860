"""XML of strangers, read without a document type: so no entity is ever defined, expanded or fetched. And written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NoReturn
from xml.etree import ElementTree as ET
from xml.parsers import expat

from trace_ves.core import InputError

if TYPE_CHECKING:
    from pathlib import Path

MOST_DEPTH: Final = 40
MOST_ELEMENTS: Final = 2_000_000
_NOT_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What no XML file may hold, escaped or not."""

Element = ET.Element


class _Refused(Exception):  # noqa: N818  never leaves this module
    """The file has something in it that annotation files have no use for."""


def parse(path: Path, content: bytes, root: str) -> Element:
    """The tree of a file whose outermost element has this name."""
    builder = ET.TreeBuilder()
    depth = elements = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth, elements
        depth, elements = depth + 1, elements + 1
        if depth > MOST_DEPTH or elements > MOST_ELEMENTS:
            raise _Refused("too many elements, or nested too deeply")
        builder.start(name, attributes)

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(name)

    def refuse(*_: object) -> NoReturn:
        raise _Refused("a document type or entities, which are not read")

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(content, True)
        tree = builder.close()
    except _Refused as error:
        raise InputError(f"{path}: it has {error}.") from None
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise InputError(f"{path}: not valid XML: {error}.") from None
    if tree.tag != root:
        raise InputError(f"{path}: expected <{root}>, found <{tree.tag[:40]}>.")
    return tree


def add(parent: Element, name: str, text: str = "", /, **attributes: object) -> Element:
    """A further element; characters that XML cannot hold are replaced."""
    made = ET.SubElement(parent, name, {key: _clean(str(value)) for key, value in attributes.items()})
    if text:
        made.text = _clean(text)
    return made


def document(root: Element) -> bytes:
    """The tree as a file."""
    ET.indent(root)
    written: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
