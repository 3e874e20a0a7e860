"""How many tokens a frame takes: the examples of the providers' own pages, and the sizes at which a rule changes."""

import pytest

from trace_ves.backbone.frame_tokens import frame_detail, frame_tokens, text_tokens

GEMINI = "gemini:gemini-3-flash-preview"
CLAUDE = "anthropic:claude-haiku-4-5"


TOKENS: dict[tuple[str, str], dict[tuple[int, int], int]] = {  # by spec and detail, and by the size of the frame
    (GEMINI, "auto"): {(640, 360): 280, (1280, 720): 560},
    (GEMINI, "high"): {(640, 360): 1120},
    ("vertex:gemini-3-flash-preview", "auto"): {(1280, 720): 560},
    ("gemini:gemini-2.5-flash", "auto"): {(640, 360): 64, (640, 361): 256},
    ("gemini:gemini-1.5-pro", "auto"): {(640, 721): 256},
    ("openai:gpt-4o", "high"): {
        (1024, 1024): 765,  # the documentation's own examples
        (2048, 4096): 1105,
        (512, 512): 85 + 170,
        (513, 512): 85 + 2 * 170,
        (512, 513): 85 + 2 * 170,
        (768, 1537): 85 + 8 * 170,
        (769, 2048): 85 + 8 * 170,  # 768 by 2,045.3
        (2049, 1025): 85 + 6 * 170,  # shrunk to 768 by 1,535.3
        (8192, 512): 85 + 4 * 170,  # shrunk to 2,048 by 128
    },
    ("openai:gpt-4o", "low"): {(4096, 8192): 85},
    ("openai:gpt-4.1-mini", "high"): {
        (1024, 1024): 1659,  # 1,024 patches, each 1.62 tokens
        (1800, 2400): 2353,  # 1,452 patches after shrinking
        (1536, 1024): 2489,  # 1,536 patches, the most
        (1568, 1024): 2411,  # one column more: 48 by 31
        (1411, 1190): 2382,  # 42 by 35; of one patch more it would be 36
        (2300, 842): 2489,  # 64 by 24, the most
        (1842, 1935): 2463,
        (2669, 1555): 2349,
        (8192, 1024): 830,  # 64 by 8 patches
    },
    ("openai:gpt-4.1-mini", "low"): {(1024, 512): 208, (512, 513): 415, (33, 32): 4, (32, 33): 4},  # 512 by 256
    ("openai:gpt-4.1-nano", "high"): {(1411, 1190): 3617},
    ("openai:o4-mini", "high"): {(1411, 1190): 2529},
    ("openai:gpt-5-nano", "high"): {(1411, 1190): 2205},
    ("openai:gpt-5-mini", "high"): {(1411, 1190): 1764},
    ("openai:gpt-5.2", "high"): {(1800, 2400): 1743},
    ("openai:gpt-6-astra", "high"): {(1920, 1080): 2448},
    ("openai:gpt-5.4", "high"): {(1600, 1600): 3000, (1600, 1632): 2940, (1396, 1979): 2903},
    ("openai:gpt-5.4-mini", "auto"): {(640, 360): 173},
    ("openai:o3", "high"): {(512, 512): 225},
    ("openai:gpt-5.1", "high"): {(512, 512): 210},
    ("openai:gpt-4o-mini", "high"): {(512, 512): 8500},
    (CLAUDE, "auto"): {
        (200, 200): 64,  # Claude's table, both tiers
        (1920, 1080): 1560,
        (49 * 28, 32 * 28): 1568,  # just as many as the model takes
        (49 * 28, 33 * 28): 1536,  # 48 by 32
        (1141, 1475): 1540,
        (551, 2332): 784,
        (1, 9000): 56,
        (9000, 1): 56,
        (29, 28): 2,
    },
    ("anthropic:claude-sonnet-5", "auto"): {(1000, 1000): 1296},
    ("anthropic:claude-opus-5", "auto"): {(1920, 1080): 2691, (2778, 1748): 4730, (9000, 1): 92},
    ("anthropic:claude-sonnet-4-6", "auto"): {(3840, 2160): 1560},
    ("anthropic:claude-opus-4-7", "auto"): {(3840, 2160): 4784},
    ("openai:Qwen/Qwen3-VL-8B@http://localhost/v1", "auto"): {(640, 360): 240},
    ("ollama:qwen", "auto"): {(33, 32): 2, (32, 33): 2},
}


@pytest.mark.parametrize(("spec", "detail"), TOKENS)
def test_the_tokens_of_a_frame_follow_the_published_formulas(spec: str, detail: str) -> None:
    for (width, height), tokens in TOKENS[spec, detail].items():
        assert frame_tokens(spec, width, height, detail) == tokens, (width, height)


def test_the_detail_of_a_frame_follows_from_its_height_and_only_gemini_has_a_medium_one() -> None:
    assert [frame_detail("gemini", px) for px in (1, 360, 361, 720, 721)] == ["low", "low", "medium", "medium", "high"]
    assert [frame_detail("openai", px) for px in (360, 361, 720)] == ["low", "high", "high"]
    assert frame_detail("openai", 1080, "low") == "low"
    assert [text_tokens("x" * length) for length in (0, 1, 4, 5)] == [0, 1, 1, 2]
