// Talks to the server that the page came from.
import { settings } from "./store.js";

const headers = () => ({ "Content-Type": "application/json", ...(settings.key ? { Authorization: "Bearer " + settings.key } : {}) });

async function problem(answer) {
  const text = await answer.text();
  try {
    return JSON.parse(text).error.message;
  } catch {
    return text || `the server answered ${answer.status}`;
  }
}

export async function get(path) {
  const answer = await fetch(path, { headers: headers() });
  if (!answer.ok) throw new Error(await problem(answer));
  return answer.headers.get("content-type").includes("json") ? answer.json() : answer.text();
}

export async function post(path, body) {
  const answer = await fetch(path, { method: "POST", headers: headers(), body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(await problem(answer));
  return answer.json();
}

// Calls `take` with each event of a stream.
export async function stream(path, body, signal, take) {
  const answer = await fetch(path, { method: "POST", headers: headers(), body: JSON.stringify(body), signal });
  if (!answer.ok) throw new Error(await problem(answer));
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events)
      for (const line of event.split("\n")) {
        if (!line.startsWith("data: ") || line === "data: [DONE]") continue;
        const data = JSON.parse(line.slice(6));
        if (data.error) throw new Error(data.error.message);
        take(data);
      }
  }
}
