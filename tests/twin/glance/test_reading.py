"""Words on the screen: matched as phrases, and really read from a compressed video where the extra is installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.twin.glance.conftest import CodeVideo, read_code

from trace_ves.core import Question, Termination
from trace_ves.observer import Observer
from trace_ves.runs.methods import default_budget, open_method
from trace_ves.twin.glance.glance import Glance
from trace_ves.twin.glance.reading import ScreenReader, sightings_of
from trace_ves.twin.glance.sightings import View

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

SIGN = Question("sign", "v.mp4", "Which words are on the sign?", ("Harbour Cafe", "Garden Hotel", "City Museum"))


@pytest.mark.parametrize(
    ("phrase", "line", "found"),
    [
        ("Harbour Cafe", "HARBOUR CAFE", True),
        ("Harbour Cafe", "the HARBOURCAFE, open", True),
        ("Harbour Cafe", "HARB0UR CAFE", True),
        ("Harbour Cafe", "Garden Hotel", False),
        ("A", "A", True),
        ("A", "AN", False),
        ("12", "112", False),
        ("!!!", "anything", False),
    ],
)
def test_phrases_are_found_in_lines(phrase: str, line: str, found: bool) -> None:
    assert [s.name for s in sightings_of([phrase], [(line, 0.9)])] == ([phrase] if found else [])


def test_without_a_reader_a_question_about_words_is_a_draw_that_no_frame_changes() -> None:
    drawn = {
        open_method(name)(SIGN, Observer(CodeVideo(60.0), Glance(read_code))).option for name in ("uniform-8", "blind")
    }
    assert len(drawn) == 1
    assert drawn <= set("ABC")


def test_what_is_read_counts_as_seen() -> None:
    def reader(pixels: NDArray[np.uint8]) -> tuple[tuple[str, float], ...]:
        return (("GARDEN HOTEL", 0.9),)

    observer = Observer(CodeVideo(60.0), Glance(read_code, reader=reader))
    assert open_method("uniform-8")(SIGN, observer).option == "B"


def test_nothing_is_read_for_a_question_about_things() -> None:
    def reader(pixels: NDArray[np.uint8]) -> tuple[tuple[str, float], ...]:
        raise AssertionError("reading is slow, and nobody asked for words")

    observer = Observer(CodeVideo(60.0), Glance(read_code, reader=reader))
    question = Question("which", "v.mp4", "Which of these is seen?", ("a taxi", "a fox"))
    assert open_method("uniform-8")(question, observer).option in {"A", "B"}


@pytest.fixture(scope="module")
def street_sign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A minute of drifting colours, compressed, with a sign from 40 s to 50 s."""
    import av
    from PIL import Image, ImageDraw, ImageFont

    path = tmp_path_factory.mktemp("videos") / "sign.mp4"
    ramp = np.linspace(60, 200, 640, dtype=np.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=2, options={"preset": "ultrafast"})
        stream.width, stream.height = 640, 360
        for number in range(120):
            plain = np.broadcast_to(np.roll(ramp, 5 * number)[None, :, None], (360, 640, 3))
            picture = Image.fromarray(np.ascontiguousarray(plain))
            if 80 <= number <= 100:
                draw = ImageDraw.Draw(picture)
                draw.rectangle((170, 120, 480, 200), fill=(240, 236, 220))
                draw.text((200, 140), "Harbour Cafe", fill=(60, 20, 20), font=ImageFont.load_default(40))
            container.mux(stream.encode(av.VideoFrame.from_image(picture)))
        container.mux(stream.encode())
    return path


@pytest.mark.skipif(find_spec("rapidocr") is None, reason="the extra 'ocr' is not installed")
@pytest.mark.filterwarnings("default")  # warnings of somebody else's package
def test_trace_reads_a_sign_in_a_real_file(street_sign: Path) -> None:
    from trace_ves import video

    with video.open(street_sign) as source:
        observer = Observer(
            source, Glance(lambda _: View(), reader=ScreenReader()), budget=default_budget(open_method("trace"))
        )
        answer = open_method("trace")(SIGN, observer)
    assert (answer.option, answer.termination) == ("A", Termination.STABLE_PREFIX_FOUND)
    assert any(40 <= frame.seconds <= 50.5 for clip in answer.bundle for frame in clip.frames)
