"""Write the lexicon of glance from the twin's vocabulary, so that its words are the words the questions are written in.

    python3 tools/make_lexicon.py

The backbone may not import the twin, hence this copy as data; a test says when it is out of date.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "src/trace_ves/twin/glance/lexicon.toml"
FAST_MOTIONS = frozenset({"drive", "fly", "flutter", "hop"})
SMALL_THINGS = frozenset({"mouse", "bee", "scorpion", "crab", "ladybird", "snail", "cup of coffee", "alarm clock"})
HEADER = """\
# What glance has words for, written by tools/make_lexicon.py from the twin's vocabulary.
# `words` name a thing in questions, `homes` are the scenes where one expects it, `look_for` is how to look for it.
# The `words` of an act say that a thing does it.
# `unseen` are words that hold a thing's name and mean something that the eyes were trained to ignore.
"""


def lexicon_text() -> str:
    """The lexicon that belongs to the vocabulary as it is now."""
    sys.path.insert(0, str(ROOT / "src"))
    from trace_ves.twin.synthetic.vocabulary import vocabulary

    known = vocabulary()
    words = {name: list(dict.fromkeys([*sprite.nouns, name])) for name, sprite in known.sprites.items()}
    spoken = {word for group in words.values() for word in group}
    unseen = [prop for prop in known.props if any(f" {word} " in f" {prop} " for word in spoken)]
    lines = [HEADER, f"scenes = {_shown(list(known.scenes))}", f"unseen = {_shown(unseen)}"]
    for name, sprite in known.sprites.items():
        small, fast = name in SMALL_THINGS, sprite.motion in FAST_MOTIONS
        look_for = "small-object" if small else "fast-motion" if fast else "general"
        lines += [
            f"\n[thing.{_shown(name)}]",
            f"words = {_shown(words[name])}",
            f"homes = {_shown(list(sprite.homes))}",
        ]
        lines += [f"look_for = {_shown(look_for)}"]
    for name, act in known.acts.items():
        lines += [f"\n[act.{_shown(name)}]", f"words = {_shown([phrase for pair in act.actions for phrase in pair])}"]
    return "\n".join(lines) + "\n"


def _shown(value: object) -> str:
    """Strings and lists of strings look the same in TOML and in JSON."""
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    TARGET.write_text(lexicon_text(), encoding="utf-8")
    print(f"wrote {TARGET.relative_to(ROOT)}")
