# The connection to the trainer, in the protocol of Godot RL Agents 0.7: a length (4 bytes, little-endian) and JSON.
#
# The trainer listens and the game connects. Every `action_repeat` physics frames the game sends what has happened and
# waits for the next actions; without a trainer it runs by itself. Copy this file into your own game: it finds the nodes
# of the group AGENT and needs of their parent only `restart(seed)`.
extends Node

const MAJOR = "0"

var camera = false
var action_repeat = 8
var first_seed = 1
var stream = null
var frame = 0
var stepped = false  # actions were carried out and the trainer waits for the result

func _ready():
	var asked = _arguments()
	var speedup = float(asked.get("speedup", 1))
	first_seed = int(asked.get("env_seed", 1))
	action_repeat = int(asked.get("action_repeat", action_repeat))
	camera = asked.has("camera")
	Engine.iterations_per_second = int(60 * speedup)
	Engine.time_scale = speedup
	OS.low_processor_usage_mode_sleep_usec = 1  # without a window Godot 3 would sleep 7 ms in every frame
	get_parent().restart(first_seed)
	_connect(int(asked.get("port", 11008)))

# The arguments `--name=value` of the command line.
func _arguments():
	var found = {}
	for argument in OS.get_cmdline_args():
		if argument.begins_with("--"):
			var parts = argument.substr(2).split("=", true, 1)
			found[parts[0]] = parts[1] if parts.size() > 1 else ""
	return found

func _connect(port):
	stream = StreamPeerTCP.new()
	if stream.connect_to_host("127.0.0.1", port) != OK or stream.get_status() == StreamPeerTCP.STATUS_ERROR:
		stream = null
	while stream != null and stream.get_status() == StreamPeerTCP.STATUS_CONNECTING:
		OS.delay_msec(1)
	if stream == null or stream.get_status() != StreamPeerTCP.STATUS_CONNECTED:
		print("No trainer listens on port %d: the game runs without one." % port)
		stream = null
	else:
		stream.set_no_delay(true)

func _physics_process(_delta):
	frame += 1
	if stream == null or frame % action_repeat != 0:
		return
	if stepped:
		_send_step()
	while not _carry_out(_receive()):
		pass

func _agents():
	return get_tree().get_nodes_in_group("AGENT")

func _each(method):
	var answers = []
	for agent in _agents():
		answers.append(agent.call(method))
	return answers

func _send_step():
	var step = {"type": "step", "reward": _each("get_reward"), "done": _each("get_done")}
	step["truncated"] = _each("get_truncated")  # out of time rather than won or lost: the future still counts
	step["info"] = _each("get_info")
	step["obs"] = _each("get_obs")
	_send(step)
	stepped = false

# Carry out one message; return whether the game may continue.
func _carry_out(message):
	match message.get("type"):
		"handshake":
			if message["major_version"] != MAJOR:
				push_error("The trainer speaks version %s of the protocol, the game %s." % [message["major_version"], MAJOR])
		"env_info":
			var agents = _agents()
			var names = []
			for agent in agents:
				names.append(agent.policy_name)
			_send({
				"type": "env_info", "n_agents": agents.size(), "agent_policy_names": names, "seeded_reset": true,
				"observation_space": _each("get_obs_space"), "action_space": _each("get_action_space"),
			})
		"reset":
			get_parent().restart(message.get("seed"))
			_send({"type": "reset", "obs": _each("get_obs"), "info": _each("get_info")})
		"action":
			var agents = _agents()
			for i in range(agents.size()):
				agents[i].set_action(message["action"][i])
			stepped = true
			return true
		"call":
			_send({"type": "call", "returns": _each(message["method"])})
		_:  # close, or the trainer has gone
			get_tree().quit()
			stream = null
			return true
	return false

func _send(message):
	var packet = StreamPeerBuffer.new()  # so that length and text leave in one packet
	packet.put_utf8_string(JSON.print(message))
	stream.put_data(packet.data_array)

func _receive():
	var length = stream.get_u32()
	if stream.get_status() != StreamPeerTCP.STATUS_CONNECTED:
		return {"type": "close"}
	return JSON.parse(stream.get_utf8_string(length)).result
