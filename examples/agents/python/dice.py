#!/usr/bin/env python3
"""An agent in Python without any library: MCP is JSON-RPC, one message a line.

It speaks the versions of the protocol that begin with a handshake; the hub
translates for clients that speak newer ones. Nothing but messages may go to
stdout; print to stderr what people should see.
"""

import json
import random
import sys

TOOLS = [
    {
        "name": "roll",
        "description": "Rolls dice and returns each of them and their sum.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "dice": {"type": "integer", "minimum": 1, "maximum": 100},
                "sides": {"type": "integer", "minimum": 2, "maximum": 1000},
                "seed": {"type": "integer", "description": "The same seed rolls the same dice."},
            },
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "rolled": {"type": "array", "items": {"type": "integer"}},
                "sum": {"type": "integer"},
            },
            "required": ["rolled", "sum"],
        },
    }
]


class Refused(Exception):
    """An error that answers a request."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def initialize(params):
    known = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
    asked = params.get("protocolVersion")
    return {
        "protocolVersion": asked if asked in known else known[-1],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "dice", "version": "1.0.0"},
    }


def call(params):
    if params.get("name") != "roll":
        raise Refused(-32602, f"unknown tool {params.get('name')}")
    args = params.get("arguments") or {}
    dice, sides = args.get("dice", 1), args.get("sides", 6)
    if not isinstance(dice, int) or not isinstance(sides, int) or not (1 <= dice <= 100 and 2 <= sides <= 1000):
        # What the caller can repair is a result, so that its model sees it.
        return {"content": [{"type": "text", "text": "dice must be 1 to 100, sides 2 to 1000"}], "isError": True}
    chance = random.Random(args.get("seed"))
    rolled = [chance.randint(1, sides) for _ in range(dice)]
    result = {"rolled": rolled, "sum": sum(rolled)}
    return {"content": [{"type": "text", "text": json.dumps(result)}], "structuredContent": result}


METHODS = {
    "initialize": initialize,
    "ping": lambda params: {},
    "tools/list": lambda params: {"tools": TOOLS},
    "tools/call": call,
}


def answer(message):
    """Returns the answer to a message, or None for one that wants none."""
    if "id" not in message or "method" not in message:
        return None
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    try:
        method = METHODS.get(message["method"])
        if method is None:
            raise Refused(-32601, f"unknown method {message['method']}")
        reply["result"] = method(message.get("params") or {})
    except Refused as refused:
        reply["error"] = {"code": refused.code, "message": str(refused)}
    return reply


def main():
    for line in sys.stdin:
        try:
            message = json.loads(line)
            reply = answer(message) if isinstance(message, dict) else None
        except ValueError as err:
            reply = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": f"not JSON: {err}"}}
        if reply is not None:
            print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
