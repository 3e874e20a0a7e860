"""ELAN's files (.eaf, format 2.x and 3.0): tiers of annotations between time slots in milliseconds.

The format is described by the schema at https://www.mpi.nl/tools/elan/EAFv3.0.xsd. An item becomes a tier; a dependent
annotation (REF_ANNOTATION) has no times of its own and is left out.
"""

from __future__ import annotations

import mimetypes
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from trace_ves.construction.interchange.safe_xml import Element, add, document, parse
from trace_ves.construction.interchange.spans import LabelledSpan, Seconds
from trace_ves.core import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from trace_ves.construction.interchange.spans import ExportedVideo

ROOT: Final = "ANNOTATION_DOCUMENT"
MOST_MILLISECONDS: Final = 10**12
_TYPE: Final = "interval"


def read(path: Path, content: bytes) -> list[LabelledSpan]:
    """Every annotation that has times, under the name of its tier."""
    tree = parse(path, content, ROOT)
    header = tree.find("HEADER")
    units = header.get("TIME_UNITS", "milliseconds") if header is not None else "milliseconds"
    if units != "milliseconds":
        raise InputError(f"{path}: its time unit is {units[:40]!r}; only milliseconds are read.")
    media = header.find("MEDIA_DESCRIPTOR") if header is not None else None
    name = (media.get("RELATIVE_MEDIA_URL") or media.get("MEDIA_URL") or "") if media is not None else ""
    origin = _milliseconds(path, media.get("TIME_ORIGIN") or "0") if media is not None else 0
    slots = {
        slot.get("TIME_SLOT_ID", ""): _milliseconds(path, value)
        for slot in tree.iterfind("TIME_ORDER/TIME_SLOT")
        if (value := slot.get("TIME_VALUE")) is not None
    }
    found = []
    for tier in tree.iterfind("TIER"):
        for each in tier.iterfind("ANNOTATION/ALIGNABLE_ANNOTATION"):
            edges = [slots.get(each.get(f"TIME_SLOT_REF{number}", "")) for number in (1, 2)]
            if edges[0] is None or edges[1] is None:
                identity = each.get("ANNOTATION_ID", "")[:40]
                raise InputError(f"{path}: the annotation {identity!r} has no time; align it in ELAN, or delete it.")
            span = Seconds((edges[0] + origin) / 1000, (edges[1] + origin) / 1000)
            found.append(LabelledSpan(name, tier.get("TIER_ID", ""), span, each.findtext("ANNOTATION_VALUE") or ""))
    return found


def _milliseconds(path: Path, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = MOST_MILLISECONDS + 1
    if abs(value) > MOST_MILLISECONDS:
        raise InputError(f"{path}: {text[:40]!r} is not a time in milliseconds.")
    return value


def write(video: ExportedVideo) -> bytes:
    """A file with a tier for each item; each annotation says what its interval should show."""
    root = Element(ROOT, {"AUTHOR": "", "DATE": "1970-01-01T00:00:00Z", "FORMAT": "3.0", "VERSION": "3.0"})
    header = add(root, "HEADER", MEDIA_FILE="", TIME_UNITS="milliseconds")
    file = PurePosixPath(video.name).name
    kind = mimetypes.guess_type(file)[0] or "video/*"
    add(header, "MEDIA_DESCRIPTOR", MEDIA_URL=file, RELATIVE_MEDIA_URL=f"./{file}", MIME_TYPE=kind)
    order = add(root, "TIME_ORDER")
    edges = [edge for item in video.items for interval, _ in item.intervals for edge in (interval.start, interval.end)]
    for place, edge in sorted(enumerate(edges), key=lambda pair: pair[1]):
        add(order, "TIME_SLOT", TIME_SLOT_ID=f"ts{place + 1}", TIME_VALUE=round(1000 * edge))
    number = 0
    for item in video.items:
        tier = add(root, "TIER", LINGUISTIC_TYPE_REF=_TYPE, TIER_ID=item.id)
        for _, note in item.intervals:
            number += 1
            slots = {"TIME_SLOT_REF1": f"ts{2 * number - 1}", "TIME_SLOT_REF2": f"ts{2 * number}"}
            made = add(add(tier, "ANNOTATION"), "ALIGNABLE_ANNOTATION", ANNOTATION_ID=f"a{number}", **slots)
            add(made, "ANNOTATION_VALUE", note)
    add(root, "LINGUISTIC_TYPE", GRAPHIC_REFERENCES="false", LINGUISTIC_TYPE_ID=_TYPE, TIME_ALIGNABLE="true")
    return document(root)
