"""The sample in Firefox: its search in the studio, the viewer over that search, and its saved page."""

from pathlib import Path

from tests.web.conftest import serving_app
from tests.web.desk.test_firefox import Firefox
from tests.web.desk.test_firefox import firefox as firefox  # noqa: PLC0414  the fixture
from trace_ves.backbone.registry import open_backbone
from trace_ves.cli.ask import SAMPLE_FILM, SAMPLE_SPEC, sample_question
from trace_ves.runs.prices import load_prices
from trace_ves.video.folders import VideoFolders
from trace_ves.web.guard import LOOPBACK_NAMES
from trace_ves.web.studio import Model, SampleQuestion, Studio
from trace_ves.web.studio_app import create_studio_app

CAR = "a white car drives across the asphalt (0:28.4-0:31.6)"
READY = "!!document.querySelector('#player[data-ready]')"


def test_the_sample_from_the_studio_to_the_viewer_and_its_saved_page(firefox: Firefox, tmp_path: Path) -> None:
    studio = Studio(
        VideoFolders([SAMPLE_FILM]),
        Model(SAMPLE_SPEC, open_backbone(SAMPLE_SPEC)),
        tmp_path / "answers",
        load_prices(),
        save=tmp_path / "saved",
        samples=[SampleQuestion(*sample_question(), SAMPLE_FILM.name)],
    )
    with serving_app(create_studio_app(studio, hosts=LOOPBACK_NAMES)) as address:
        firefox.goto(address)
        firefox.wait("!document.querySelector('#send').disabled")
        assert firefox.value("document.querySelector('#estimate').innerText").startswith("Costs nothing")
        firefox.value("document.querySelector('.samples button').click()")
        firefox.wait("!document.querySelector('#send').disabled && document.querySelector('#options input').value")
        firefox.value("document.querySelector('#send').click()")
        firefox.wait("!document.querySelector('#outcome').hidden")
        assert firefox.value("document.querySelector('#outcome').dataset.found") == "found"
        assert firefox.value("document.querySelector('#outcome .answer').innerText").startswith("C. a white car")
        assert firefox.value("document.querySelectorAll('#evidence-clips li').length") == 4
        assert firefox.value("document.querySelector('#evidence-clips .fact').innerText") == f"✓ {CAR}"
        firefox.value("document.querySelectorAll('#evidence-clips button')[3].click()")
        firefox.wait("document.querySelector('#at').innerText.startsWith('at 1:0')")
        firefox.wait("document.querySelector('#film').videoWidth > 300 || !document.querySelector('#still').hidden")

        firefox.goto(firefox.value("document.querySelector('#story').href") + "#t=51.05")
        firefox.wait(READY)
        firefox.wait("document.querySelector('#moment .time').textContent === '0:51.041'")
        assert firefox.value("[...document.querySelectorAll('.what')].some(e => e.innerText.trim() === 'looks')")

    firefox.goto((tmp_path / "saved" / "answer-001" / "story.html").as_uri())
    firefox.wait(READY)
    assert firefox.value("document.querySelectorAll('.seen-clips li').length") == 4
    caption = firefox.value("document.querySelector('.seen-clips li').innerText")
    assert "A white car comes in from the bottom at 28.38 s" in caption
    assert f"✓ {CAR}" in caption
    firefox.value("document.querySelectorAll('.seen-clips [data-seek]')[1].click()")
    firefox.wait("document.querySelector('#moment .time').textContent === '0:33.958'")  # the first frame of the clip
    firefox.wait("document.querySelector('#player .still').naturalWidth > 300")
