"""Run as a program: `inspect_ai.eval` on a bench, with the schema model as inspect_ai's mock model.

Gets a JSON list of evaluations, each with `method` and `limit`, where they differ `bench` and how many samples are
`asking`, and further arguments of `eval`; prints one line for each.
"""

import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from inspect_ai import eval as inspect_eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from tests.integrations.schema_model import TOKENS, reply


def mock(samples: int) -> Callable[..., Awaitable[ModelOutput]]:
    """The schema model. It answers nobody until every sample has asked: a sample that cannot is a deadlock."""
    all_asked = anyio.Event()
    asked = 0

    async def answer(messages: list[Any], tools: Any, choice: Any, config: Any) -> ModelOutput:
        nonlocal asked
        asked += 1
        if asked == samples:
            all_asked.set()
        await all_asked.wait()
        texts = [part.text for part in messages[0].content if part.type == "text"][:-1]  # the last tells the schema
        texts += [message.text for message in messages[1:] if message.role == "user"]
        schema = config.response_schema.json_schema.model_dump(exclude_none=True)
        output = ModelOutput.from_content("mock", reply(texts, schema))
        output.usage = ModelUsage(
            input_tokens=TOKENS.input_tokens - TOKENS.cached_tokens,
            input_tokens_cache_read=TOKENS.cached_tokens,
            output_tokens=TOKENS.output_tokens,
            total_tokens=TOKENS.input_tokens + TOKENS.output_tokens,
        )
        return output

    return answer


def main(bench: str, logs: str, evaluations: str) -> None:
    for each in json.loads(evaluations):
        method, limit, folder = each.pop("method"), each.pop("limit"), each.pop("bench", bench)
        [log] = inspect_eval(
            "trace_ves/ves",
            model=get_model("mockllm/model", custom_outputs=mock(each.pop("asking", limit)), memoize=False),
            task_args={"bench": folder, "method": method},
            log_dir=logs,
            limit=limit,
            max_samples=limit,
            max_connections=limit,
            display="none",
            **each,
        )
        sys.stdout.write(f"{log.status} {log.location}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
