"""How many tokens a frame takes: the examples of the providers' own pages, and the sizes at which a rule changes."""

import pytest

from trace_ves.backbone.frame_tokens import frame_detail, frame_tokens, text_tokens

GEMINI = "gemini:gemini-3-flash-preview"
CLAUDE = "anthropic:claude-haiku-4-5"


@pytest.mark.parametrize(
    ("spec", "size", "detail", "tokens"),
    [
        (GEMINI, (640, 360), "auto", 280),
        (GEMINI, (1280, 720), "auto", 560),
        (GEMINI, (640, 360), "high", 1120),
        ("vertex:gemini-3-flash-preview", (1280, 720), "auto", 560),
        ("gemini:gemini-2.5-flash", (640, 360), "auto", 64),
        ("gemini:gemini-2.5-flash", (640, 361), "auto", 256),
        ("gemini:gemini-1.5-pro", (640, 721), "auto", 256),
        ("openai:gpt-4o", (1024, 1024), "high", 765),  # the documentation's own examples
        ("openai:gpt-4o", (2048, 4096), "high", 1105),
        ("openai:gpt-4o", (4096, 8192), "low", 85),
        ("openai:gpt-4o", (512, 512), "high", 85 + 170),
        ("openai:gpt-4o", (513, 512), "high", 85 + 2 * 170),
        ("openai:gpt-4o", (512, 513), "high", 85 + 2 * 170),
        ("openai:gpt-4o", (768, 1537), "high", 85 + 8 * 170),
        ("openai:gpt-4o", (769, 2048), "high", 85 + 8 * 170),  # 768 by 2,045.3
        ("openai:gpt-4o", (2049, 1025), "high", 85 + 6 * 170),  # shrunk to 768 by 1,535.3
        ("openai:gpt-4o", (8192, 512), "high", 85 + 4 * 170),  # shrunk to 2,048 by 128
        ("openai:gpt-4.1-mini", (1024, 1024), "high", 1659),  # 1,024 patches, each 1.62 tokens
        ("openai:gpt-4.1-mini", (1800, 2400), "high", 2353),  # 1,452 patches after shrinking
        ("openai:gpt-4.1-mini", (1536, 1024), "high", 2489),  # 1,536 patches, the most
        ("openai:gpt-4.1-mini", (1568, 1024), "high", 2411),  # one column more: 48 by 31
        ("openai:gpt-4.1-mini", (1411, 1190), "high", 2382),  # 42 by 35; of one patch more it would be 36
        ("openai:gpt-4.1-mini", (2300, 842), "high", 2489),  # 64 by 24, the most
        ("openai:gpt-4.1-mini", (1842, 1935), "high", 2463),
        ("openai:gpt-4.1-mini", (2669, 1555), "high", 2349),
        ("openai:gpt-4.1-mini", (8192, 1024), "high", 830),  # 64 by 8 patches
        ("openai:gpt-4.1-mini", (1024, 512), "low", 208),  # 512 by 256
        ("openai:gpt-4.1-mini", (512, 513), "low", 415),
        ("openai:gpt-4.1-mini", (33, 32), "low", 4),
        ("openai:gpt-4.1-mini", (32, 33), "low", 4),
        ("openai:gpt-4.1-nano", (1411, 1190), "high", 3617),
        ("openai:o4-mini", (1411, 1190), "high", 2529),
        ("openai:gpt-5-nano", (1411, 1190), "high", 2205),
        ("openai:gpt-5-mini", (1411, 1190), "high", 1764),
        ("openai:gpt-5.2", (1800, 2400), "high", 1743),
        ("openai:gpt-6-astra", (1920, 1080), "high", 2448),
        ("openai:gpt-5.4", (1600, 1600), "high", 3000),  # 2,500 patches, the most
        ("openai:gpt-5.4", (1600, 1632), "high", 2940),  # 50 by 49
        ("openai:gpt-5.4", (1396, 1979), "high", 2903),  # 41 by 59
        ("openai:gpt-5.4-mini", (640, 360), "auto", 173),
        ("openai:o3", (512, 512), "high", 225),
        ("openai:gpt-5.1", (512, 512), "high", 210),
        ("openai:gpt-4o-mini", (512, 512), "high", 8500),
        (CLAUDE, (200, 200), "auto", 64),  # Claude's table, both tiers
        ("anthropic:claude-sonnet-5", (1000, 1000), "auto", 1296),
        (CLAUDE, (1920, 1080), "auto", 1560),
        ("anthropic:claude-opus-5", (1920, 1080), "auto", 2691),
        ("anthropic:claude-sonnet-4-6", (3840, 2160), "auto", 1560),
        ("anthropic:claude-opus-4-7", (3840, 2160), "auto", 4784),
        (CLAUDE, (49 * 28, 32 * 28), "auto", 1568),  # just as many as the model takes
        (CLAUDE, (49 * 28, 33 * 28), "auto", 1536),  # 48 by 32
        (CLAUDE, (1141, 1475), "auto", 1540),
        (CLAUDE, (551, 2332), "auto", 784),
        ("anthropic:claude-opus-5", (2778, 1748), "auto", 4730),
        (CLAUDE, (1, 9000), "auto", 56),
        (CLAUDE, (9000, 1), "auto", 56),
        ("anthropic:claude-opus-5", (9000, 1), "auto", 92),
        (CLAUDE, (29, 28), "auto", 2),
        ("openai:Qwen/Qwen3-VL-8B@http://localhost/v1", (640, 360), "auto", 240),
        ("ollama:qwen", (33, 32), "auto", 2),
        ("ollama:qwen", (32, 33), "auto", 2),
    ],
)
def test_the_tokens_of_a_frame_follow_the_published_formulas(
    spec: str, size: tuple[int, int], detail: str, tokens: int
) -> None:
    assert frame_tokens(spec, *size, detail) == tokens


def test_the_detail_of_a_frame_follows_from_its_height_and_only_gemini_has_a_medium_one() -> None:
    assert [frame_detail("gemini", px) for px in (1, 360, 361, 720, 721)] == ["low", "low", "medium", "medium", "high"]
    assert [frame_detail("openai", px) for px in (360, 361, 720)] == ["low", "high", "high"]
    assert frame_detail("openai", 1080, "low") == "low"
    assert [text_tokens("x" * length) for length in (0, 1, 4, 5)] == [0, 1, 1, 2]
