// Everything that OpenAI's library for Node knows of models and chat completions, against the server at argv[2].
// Prints one JSON line for each thing that was tried.
import OpenAI from "openai";

const [, , url, key] = process.argv;
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key ?? "none", maxRetries: 0 });
const tell = (name, value) => console.log(JSON.stringify({ name, ...value }));
const user = (content) => [{ role: "user", content }];
const pixel =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

const names = [];
for await (const model of client.models.list()) names.push(model.id);
tell("models", { names, one: (await client.models.retrieve("melete")).id });

const { data, response } = await client.chat.completions
  .create({ model: "melete", messages: user("hello from node") })
  .withResponse();
const session = response.headers.get("x-melete-session-id");
tell("whole", { text: data.choices[0].message.content, finish: data.choices[0].finish_reason, usage: data.usage, session });

const again = await client.chat.completions
  .create(
    { model: "melete", messages: user("and again") },
    { headers: { "X-Melete-Session-Id": session } },
  )
  .withResponse();
tell("continued", {
  text: again.data.choices[0].message.content,
  same: again.response.headers.get("x-melete-session-id") === session,
});

const stream = await client.chat.completions.create({
  model: "melete",
  messages: user("tool please"),
  stream: true,
  stream_options: { include_usage: true },
});
const seen = { text: "", roles: [], finish: null, usage: null, beside: [] };
for await (const chunk of stream) {
  const choice = chunk.choices[0];
  if (chunk.usage) seen.usage = chunk.usage;
  if (!choice) continue;
  if (choice.delta.role) seen.roles.push(choice.delta.role);
  seen.text += choice.delta.content ?? "";
  seen.finish = choice.finish_reason ?? seen.finish;
  if (chunk.melete?.type) seen.beside.push(chunk.melete.type);
}
tell("stream", seen);

const helper = client.chat.completions.stream({ model: "melete", messages: user("think hard") });
let pieces = "";
helper.on("content", (delta) => (pieces += delta));
const final = await helper.finalChatCompletion();
tell("helper", { text: final.choices[0].message.content, pieces, finish: final.choices[0].finish_reason });

const image = await client.chat.completions.create({
  model: "melete",
  messages: user([
    { type: "text", text: "look" },
    { type: "image_url", image_url: { url: pixel } },
  ]),
});
tell("image", { text: image.choices[0].message.content });

const schema = { type: "object", properties: { n: { type: "integer" } }, required: ["n"], additionalProperties: false };
const parsed = await client.chat.completions.parse({
  model: "melete",
  messages: user("json please"),
  response_format: { type: "json_schema", json_schema: { name: "number", schema, strict: true } },
});
tell("parsed", { content: parsed.choices[0].message.content, parsed: parsed.choices[0].message.parsed ?? null });

const brought = await client.chat.completions
  .create({
    model: "melete",
    messages: user("hi"),
    tools: [{ type: "function", function: { name: "f", parameters: { type: "object" } } }],
  })
  .withResponse();
tell("tools", { text: brought.data.choices[0].message.content, ignored: brought.response.headers.get("x-melete-ignored") });

const failing = {
  unsupported: { model: "melete", messages: user("hi"), n: 2 },
  not_found: { model: "openai/gpt-5", messages: user("hi") },
  failed: { model: "melete", messages: user("unauthorized") },
  no_user: { model: "melete", messages: [{ role: "system", content: "hi" }] },
};
for (const [name, body] of Object.entries(failing)) {
  try {
    await client.chat.completions.create(body);
    tell(name, { kind: null });
  } catch (error) {
    tell(name, { kind: error.constructor.name, status: error.status, code: error.code, param: error.param });
  }
}

try {
  const broken = await client.chat.completions.create({ model: "melete", messages: user("broken"), stream: true });
  for await (const chunk of broken) void chunk;
  tell("broken", { kind: null });
} catch (error) {
  tell("broken", { kind: error.constructor.name, code: error.code, api: error instanceof OpenAI.APIError });
}
