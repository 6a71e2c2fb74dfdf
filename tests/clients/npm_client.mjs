// The openai package of npm: chat, stream, tools, JSON, errors.  node client.mjs http://127.0.0.1:PORT
import assert from "node:assert/strict";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.argv[2] + "/v1", apiKey: "none" });
const messages = [{ role: "user", content: "Once upon a time" }];

const models = await client.models.list();
assert.equal(models.data[0].id, "demo");

const whole = await client.chat.completions.create({ model: "demo", messages, max_tokens: 16, temperature: 0 });
assert.ok(whole.choices[0].message.content);
let text = "";
let usage = null;
for await (const chunk of await client.chat.completions.create({
  model: "demo", messages, max_tokens: 16, temperature: 0, stream: true, stream_options: { include_usage: true } })) {
  text += chunk.choices[0]?.delta?.content ?? "";
  usage = chunk.usage ?? usage;
}
assert.equal(text, whole.choices[0].message.content);
assert.equal(usage.completion_tokens, whole.usage.completion_tokens);

const schema = { type: "object", properties: { n: { type: "integer", minimum: 3, maximum: 5 } }, required: ["n"], additionalProperties: false };
const json = await client.chat.completions.create({
  model: "demo", messages, max_tokens: 40, response_format: { type: "json_schema", json_schema: { name: "n", strict: true, schema } } });
assert.ok([3, 4, 5].includes(JSON.parse(json.choices[0].message.content).n));

const tool = { type: "function", function: { name: "count", parameters: schema } };
const called = await client.chat.completions.create({ model: "demo", messages, max_tokens: 200, temperature: 0, tools: [tool], tool_choice: "required" });
assert.equal(called.choices[0].finish_reason, "tool_calls");
assert.ok(JSON.parse(called.choices[0].message.tool_calls[0].function.arguments).n >= 3);

const response = await client.responses.create({ model: "demo", input: "Once upon a time", max_output_tokens: 8, temperature: 0 });
assert.ok(response.output_text.length > 0);

await assert.rejects(client.chat.completions.create({ model: "demo", messages: [] }), (e) => e instanceof OpenAI.BadRequestError && e.status === 400);
const stopping = await client.chat.completions.create({ model: "demo", messages, max_tokens: 400, stream: true });
for await (const _ of stopping) break;  // hangs up
console.log("all right");
