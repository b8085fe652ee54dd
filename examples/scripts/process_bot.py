"""A bot for `process:`: it reads questions as JSON lines and replies to each with one. It needs nothing of Mosaic.

mosaic play classic/tictactoe_v3 --agent player_1=human \
    --agent player_2="process:python examples/scripts/process_bot.py"
"""

import json
import random
import sys

draw = random.Random()
for line in sys.stdin:
    message = json.loads(line)
    if message["call"] == "start_episode":
        draw.seed(message["seed"])
    elif message["call"] == "get_action":
        actions = {}
        for agent in message["observations"]:
            mask = message["action_masks"][agent]
            actions[agent] = draw.choice([action for action, legal in enumerate(mask) if legal])
        print(json.dumps({"actions": actions}), flush=True)
    # Other calls, such as "forget", ask nothing.
