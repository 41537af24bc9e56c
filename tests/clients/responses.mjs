// Everything that OpenAI's library for Node knows of responses, against the server at argv[2].
// Prints one JSON line for each thing that was tried.
import OpenAI from "openai";

const [, , url, key] = process.argv;
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key ?? "none", maxRetries: 0 });
const tell = (name, value) => console.log(JSON.stringify({ name, ...value }));
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const form = {
  format: {
    type: "json_schema",
    name: "number",
    strict: true,
    schema: { type: "object", properties: { n: { type: "integer" } }, required: ["n"], additionalProperties: false },
  },
};

const first = await client.responses.create({ model: "melete", input: "hello from node", metadata: { a: "b" } });
const again = await client.responses.create({ model: "melete", input: "and again", previous_response_id: first.id });
const read = await client.responses.retrieve(first.id);
tell("whole", {
  text: first.output_text,
  status: first.status,
  same: JSON.stringify(read.output) === JSON.stringify(first.output) && read.output_text === first.output_text,
  metadata: read.metadata,
  continued: again.melete.session === first.melete.session,
});

const asked = [];
for await (const item of client.responses.inputItems.list(again.id)) asked.push(item.content[0].text);
tell("items", { asked });

const seen = { text: "", types: [], numbers: [] };
for await (const event of await client.responses.create({ model: "melete", input: "tool please", stream: true })) {
  seen.types.push(event.type);
  seen.numbers.push(event.sequence_number);
  if (event.type === "response.output_text.delta") seen.text += event.delta;
  if (event.type === "response.completed") seen.id = event.response.id;
}
tell("stream", { ...seen, ordered: seen.numbers.every((n, at) => at === 0 || n > seen.numbers[at - 1]) });

const behind = seen.numbers[seen.numbers.length >> 1];
const rest = [];
for await (const event of await client.responses.retrieve(seen.id, { stream: true, starting_after: behind })) {
  rest.push(event.sequence_number);
}
const wanted = seen.numbers.filter((n) => n > behind);
tell("resumed", { rest, wanted });

const helper = client.responses.stream({ model: "melete", input: "tool please" });
let pieces = "";
helper.on("response.output_text.delta", (event) => (pieces += event.delta));
const final = await helper.finalResponse();
tell("helper", { text: final.output_text, pieces, types: final.output.map((item) => item.type) });

const given_up = client.responses.stream({ model: "melete", input: "cut other node" });
tell("given up", { text: (await given_up.finalResponse()).output_text });

const parsed = await client.responses.parse({ model: "melete", input: "fenced", text: form });
const streamed = await client.responses.stream({ model: "melete", input: "json", text: form }).finalResponse();
tell("parsed", { n: parsed.output_parsed?.n ?? JSON.parse(parsed.output_text).n, text: streamed.output_text });

const behind_me = await client.responses.create({ model: "melete", input: "slow 0.02", background: true });
let polled = behind_me;
while (["queued", "in_progress"].includes(polled.status)) {
  await pause(50);
  polled = await client.responses.retrieve(behind_me.id);
}
tell("background", { began: behind_me.status, status: polled.status, text: polled.output_text });

const stopped = await client.responses.create({ model: "melete", input: "stall", background: true });
tell("cancelled", { status: (await client.responses.cancel(stopped.id)).status });

await client.responses.delete(first.id);
try {
  await client.responses.retrieve(first.id);
} catch (error) {
  tell("deleted", { status: error.status, code: error.code, known: error instanceof OpenAI.NotFoundError });
}
try {
  await client.responses.create({ model: "melete", input: "hi", tool_choice: "required" });
} catch (error) {
  tell("refused", { status: error.status, code: error.code, param: error.param });
}
try {
  await client.responses.create({ model: "melete", input: "quota" });
} catch (error) {
  tell("failed", { status: error.status, code: error.code });
}
