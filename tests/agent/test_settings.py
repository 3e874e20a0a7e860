"""The numbers of TRACE: results that were published were made with these."""

from dataclasses import asdict

from trace_ves.agent import TRACE, VARIANTS
from trace_ves.agent.settings import STRATEGIES

NUMBERS = {
    "storyboard_frames": 32,
    "storyboard_height": 360,
    "resupply_storyboard": False,
    "scan_frames": 24,
    "least_scan_frames": 6,
    "candidates_per_round": 8,
    "look_frames_per_round": 40,
    "candidate_frames": 5,
    "fast_candidate_frames": 8,
    "least_candidate_frames": 3,
    "least_anchor_frames": 3,
    "most_anchor_frames": 4,
    "seen_spacing_seconds": 5.0,
    "occurrence_share": 0.5,
    "adjoining_seconds": 3.0,
    "expand_limit": 4,
    "shortest_segment": 2.0,
    "max_rounds": 12,
    "proposal_subtitle_chars": 24_000,
    "assembly_subtitle_chars": 4_000,
    "layout": "priority",
}


def test_a_run_without_settings_has_the_numbers_of_the_published_results() -> None:
    assert asdict(TRACE.settings) == NUMBERS
    assert asdict(TRACE.settings.for_count()) == NUMBERS | {"fast_candidate_frames": 5}  # small looks
    assert TRACE.default_budget == 112
    assert {name: (look.fps, look.height) for name, look in STRATEGIES.items()} == {
        "general": (0.2, 360),
        "fast-motion": (1.0, 360),
        "small-object": (0.2, 720),
        "text": (0.2, 720),
        "state-change": (0.4, 360),
    }


def test_a_variant_differs_in_what_its_name_says_alone() -> None:
    changed = {
        name: {key: value for key, value in asdict(variant.settings).items() if value != NUMBERS[key]}
        for name, variant in VARIANTS.items()
    }
    assert {name: change for name, change in changed.items() if change} == {
        "trace-fixed-rounds": {"max_rounds": 2},
        "trace-staged": {"look_frames_per_round": 25},
        "trace-chronological": {"layout": "chronological"},
        "trace-resupply-storyboard": {"resupply_storyboard": True},
    }
