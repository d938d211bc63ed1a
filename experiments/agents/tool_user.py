"""An agent that answers questions with two tools, as any would be written.

It knows the `openai` package alone. Each line of its standard input is an
episode, {"key": its API key, "task": {"prompt": .., "data": {"records": ..}}};
it plays them all at once, so that a step of training starts few processes. The
endpoint is that of OPENAI_BASE_URL. The tools are its own. What it says last,
without a call, is its answer.
"""

import asyncio
import json
import re
import sys

import openai

_SUM = re.compile(r'([0-9]{1,4})([*+-])([0-9]{1,4})')


def _tool(name: str, description: str, argument: str) -> dict:
  schema = {
    'type': 'object',
    'properties': {argument: {'type': 'string'}},
    'required': [argument],
  }
  function = {'name': name, 'description': description, 'parameters': schema}
  return {'type': 'function', 'function': function}


TOOLS = [
  _tool('calc', 'works out a sum', 'expression'),
  _tool('get', 'looks up a record', 'key'),
]


def use(name: str, arguments: dict[str, str], records: dict[str, str]) -> str:
  """What a tool answers."""
  if name == 'get':
    key = arguments['key']
    return records.get(key, f"error: no key '{key[:12]}'")
  found = _SUM.fullmatch(arguments['expression'])
  if not found:
    return 'error: calc takes a+b, a-b or a*b'
  left, right = int(found[1]), int(found[3])
  results = {'+': left + right, '-': left - right, '*': left * right}
  return str(results[found[2]])


async def play(client: openai.AsyncOpenAI, task: dict) -> None:
  """One episode: until it answers, or the endpoint will give no more."""
  messages: list = [{'role': 'user', 'content': task['prompt']}]
  while True:
    try:
      answer = await client.chat.completions.create(
        model='policy', messages=messages, tools=TOOLS
      )
    except openai.BadRequestError:
      return
    message = answer.choices[0].message
    if not message.tool_calls:
      return
    messages.append(message)
    for call in message.tool_calls:
      arguments = json.loads(call.function.arguments)
      text = use(call.function.name, arguments, task['data']['records'])
      messages.append(
        {'role': 'tool', 'tool_call_id': call.id, 'content': text}
      )


async def main() -> None:
  lines = [json.loads(line) for line in sys.stdin]
  async with openai.AsyncOpenAI() as client:
    await asyncio.gather(
      *(
        play(client.with_options(api_key=line['key']), line['task'])
        for line in lines
      )
    )


if __name__ == '__main__':
  asyncio.run(main())
