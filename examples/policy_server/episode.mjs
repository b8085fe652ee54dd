// A whole episode of a small game with a policy server, in plain JavaScript (node 18 or later, no packages):
//     mosaic policy-server random --env gym/CartPole-v1
//     MOSAIC_TOKEN=… node examples/policy_server/episode.mjs http://127.0.0.1:8643
const address = process.argv[2] ?? "http://127.0.0.1:8643";
const headers = { "Content-Type": "application/json", Authorization: `Bearer ${process.env.MOSAIC_TOKEN}` };

async function call(name, fields) {
  const response = await fetch(`${address}/policy/${name}`, { method: "POST", headers, body: JSON.stringify(fields) });
  const reply = await response.json();
  if (reply.error) throw Object.assign(new Error(reply.error), reply); // reply.retry says what may be done again
  return reply;
}

// The env is this program's own: here a pole that falls to the side it is not pushed to.
let angle = 0.01;
const observation = () => [0, 0, angle, 0];

const { episode_id } = await call("start_episode", {});
let reward = 0;
let steps = 0;
while (Math.abs(angle) < 0.2 && steps < 50) {
  const { action } = await call("get_action", { episode_id, observation: observation(), reward });
  angle = angle * 1.2 + (action === 1 ? -0.01 : 0.01);
  reward = 1;
  steps += 1;
}
await call("end_episode", { episode_id, observation: observation(), reward, truncated: steps === 50 });
console.log(JSON.stringify({ steps }));
