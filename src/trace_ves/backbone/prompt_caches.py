"""What each paid provider keeps of the prompts it has read, by model. docs/backbones.md has the rules and their pages.

Anthropic  https://platform.claude.com/docs/en/build-with-claude/prompt-caching, "Cache limitations"
OpenAI     https://developers.openai.com/api/docs/guides/prompt-caching
Gemini     https://ai.google.dev/gemini-api/docs/caching
"""

from __future__ import annotations

import re
from typing import Final

from trace_ves.backbone.prefix_plan import PrefixCache, SendOrder

_LEAST_TOKENS: Final = (
    (re.compile(r"anthropic:claude-(?:opus-5|sonnet-5-5|fable|mythos)"), 512),
    (re.compile(r"anthropic:claude-opus-4-7"), 2048),
    (re.compile(r"anthropic:claude-(?:opus-4-[56]|haiku-4-5)"), 4096),
    (re.compile(r"(?:gemini|vertex):gemini-[12]\."), 2048),
    (re.compile(r"(?:gemini|vertex):"), 4096),
    (re.compile(r"(?:anthropic|openai):"), 1024),
)
_MARKED: Final = re.compile(r"anthropic:|openai:gpt-(?:5\.[6-9]|[6-9]|\d\d)")


def prompt_cache(spec: str) -> PrefixCache:
    """The prompt cache of the provider that a spec names; a server of one's own says itself what it keeps."""
    least = next((tokens for named, tokens in _LEAST_TOKENS if named.match(spec)), None)
    if least is None or "@" in spec:
        return PrefixCache()
    return PrefixCache(SendOrder.LONGEST_FIRST, least_tokens=least, marked=bool(_MARKED.match(spec)))
