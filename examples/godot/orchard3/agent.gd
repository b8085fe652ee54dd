# One agent of the orchard: what it observes, what it may do, what it has earned and when its episode ends.
#
# The functions get_obs, get_reward, get_action_space, … have the names of the AIController of Godot RL Agents.
extends Node2D

const GOAL = 8        # targets reached: the episode of this agent is won
const DECISIONS = 60  # after these the time is up

export var policy_name = "shared_policy"  # agents with the same name share one policy
export var speed = 1.0                    # of the field's half width, per second
export var color = Color.white

onready var orchard = get_parent()
var spot = Vector2()
var move = Vector2()
var reward = 0.0
var reached = 0
var decisions = 0
var truncated = false  # the episode that has just ended ran out of time
var summary = {}       # numbers that become curves, per policy

func begin():
	spot = orchard.place()
	move = Vector2()
	reward = 0.0
	reached = 0
	decisions = 0

func walk(delta):
	spot += move.clamped(1.0) * speed * delta
	spot = Vector2(clamp(spot.x, -1, 1), clamp(spot.y, -1, 1))

func get_obs():
	var way = (orchard.target_of(self) - spot) / 2  # every number between -1 and 1
	var near = 1.0 if spot.distance_to(orchard.target_of(self)) < orchard.REACH else -1.0
	var obs = {"obs": [spot.x, spot.y, way.x, way.y, near, 1.0 if policy_name == "dog" else -1.0]}
	if orchard.get_node("Sync").camera:
		obs["camera_2d"] = _picture().hex_encode()
	return obs

func get_obs_space():
	var space = {"obs": {"size": [6], "space": "box"}}
	if orchard.get_node("Sync").camera:
		space["camera_2d"] = {"size": [8, 8, 1], "space": "box"}
	return space

func get_action_space():
	return {"move": {"size": 2, "action_type": "continuous"}, "act": {"size": 2, "action_type": "discrete"}}

func set_action(action):
	move = Vector2(action["move"][0], action["move"][1])
	decisions += 1
	if action["act"] == 1:
		var earned = orchard.act(self)
		reward += earned
		reached += 1 if earned > 0 else 0

func get_reward():
	var earned = reward
	reward = 0.0
	return earned

# Return whether the episode has ended; the agent then begins its next one, so the observation sent is of that one.
func get_done():
	summary = {"reached": reached}
	truncated = reached < GOAL and decisions == DECISIONS
	var done = truncated or reached == GOAL
	if done:
		begin()
	return done

func get_truncated():
	return truncated

func get_info():
	return summary

# The field in 8 × 8 grey pixels: the target dark, this agent bright.
func _picture():
	var pixels = PoolByteArray()
	for i in range(64):
		pixels.append(128)
	for mark in [[orchard.target_of(self), 0], [spot, 255]]:
		var at = ((mark[0] + Vector2.ONE) * 3.99).floor()
		pixels[int(at.y) * 8 + int(at.x)] = mark[1]
	return pixels
