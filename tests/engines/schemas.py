"""Answers that fit a schema: tool calls and structured output, whose engine's model answers nonsense."""

import json

from openai.types.chat import ChatCompletionFunctionToolParam

from engines.servers import MODEL, Server

_SCHEMA = {
    "type": "object",
    "properties": {"celsius": {"type": "boolean"}},
    "required": ["celsius"],
    "additionalProperties": False,
}

WEATHER: ChatCompletionFunctionToolParam = {
    "type": "function",
    "function": {"name": "weather", "parameters": _SCHEMA},
}
STRICT_WEATHER: ChatCompletionFunctionToolParam = {
    "type": "function",
    "function": {"name": "weather", "parameters": _SCHEMA, "strict": True},
}


def assert_calls(server: Server, tool: ChatCompletionFunctionToolParam) -> None:
    """Ask for a call of the tool, and check its name and arguments."""
    answer = server.client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "weather?"}],
        tools=[tool],
        tool_choice={"type": "function", "function": {"name": "weather"}},
        max_tokens=400,
    )
    [call] = answer.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert call.function.name == "weather"
    assert isinstance(json.loads(call.function.arguments)["celsius"], bool)


def assert_answers_by_schema(server: Server) -> None:
    """Ask for an answer with a schema, and check that it fits."""
    answer = server.client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "weather?"}],
        response_format={"type": "json_schema", "json_schema": {"name": "weather", "schema": _SCHEMA}},
        max_tokens=400,
    )
    assert isinstance(json.loads(answer.choices[0].message.content or "")["celsius"], bool)
