// Holds conversations by chat completions and by responses, each turn asked for whole and as a stream, and embeds.
// `node openai.mjs PLAN RESULT`, both JSON files; see agents_sdks.py, which writes and reads them.
import { readFileSync, writeFileSync } from "node:fs";
import OpenAI from "openai";

const plan = JSON.parse(readFileSync(process.argv[2], "utf8"));
const client = new OpenAI({ baseURL: `${plan.url}/v1`, apiKey: plan.key, maxRetries: 0 });

const steering = ({ script, scripted }) => ({ headers: scripted ? { "x-sim-script": script } : {} });

async function chat(conversation) {
  const { question, turns, asked } = conversation;
  const options = steering(conversation);
  const messages = [{ role: "user", content: question }];
  const heard = [];
  for (let turn = 0; turn < turns; turn++) {
    const whole = await client.chat.completions.create({ ...asked, messages }, options);
    const stream = client.chat.completions.stream(
      { ...asked, messages, stream_options: { include_usage: true } }, options);
    // Not fields of OpenAI's: the SDK keeps the last piece of them only.
    let thoughts = "";
    const details = [];
    stream.on("chunk", ({ choices: [choice] }) => {
      thoughts += choice?.delta.reasoning_content ?? "";
      details.push(...(choice?.delta.reasoning_details ?? []));
    });
    const streamed = structuredClone(await stream.finalChatCompletion());
    const message = streamed.choices[0].message;
    if (thoughts) message.reasoning_content = thoughts;
    if (details.length) message.reasoning_details = details;
    heard.push({ whole, streamed });
    const { role, content, tool_calls: calls } = message;
    const sealed = details.length ? { reasoning_details: details } : {};
    messages.push({ role, content, ...(calls?.length && { tool_calls: calls }), ...sealed });
    for (const call of calls ?? []) {
      messages.push({ role: "tool", tool_call_id: call.id, content: `Result of ${(call.function ?? call.custom).name}` });
    }
    if (!calls?.length) messages.push({ role: "user", content: "And then?" });
  }
  return heard;
}

async function responses(conversation) {
  const { question, turns, asked } = conversation;
  const options = steering(conversation);
  const input = [{ role: "user", content: question }];
  const heard = [];
  for (let turn = 0; turn < turns; turn++) {
    const whole = await client.responses.create({ ...asked, input }, options);
    const stream = client.responses.stream({ ...asked, input }, options);
    const items = [];
    const added = {};
    for await (const event of stream) {
      if (event.type === "response.output_item.done") items.push(event.item);
      if (event.type.endsWith(".delta")) {
        added[event.output_index] = (added[event.output_index] ?? "") + event.delta;
      }
    }
    heard.push({ whole, streamed: await stream.finalResponse(), items, added });
    input.push(...items);
    const calls = items.filter((item) => item.type.endsWith("_call"));
    for (const call of calls) {
      input.push({ type: `${call.type}_output`, call_id: call.call_id, output: `Result of ${call.name}` });
    }
    if (!calls.length) input.push({ role: "user", content: "And then?" });
  }
  return heard;
}

async function embeddings({ asked }) {
  // The SDK asks for base64 by itself and makes numbers of it.
  const packed = await client.embeddings.create(asked);
  const plain = await client.embeddings.create({ ...asked, encoding_format: "float" });
  return [{ whole: plain, streamed: packed }];
}

const kinds = { chat, responses, embeddings };
const heard = {};
for (const conversation of plan.conversations) {
  try {
    heard[conversation.script] = { turns: await kinds[conversation.kind](conversation) };
  } catch (error) {
    heard[conversation.script] = { turns: [], error: String(error.stack) };
  }
}
writeFileSync(process.argv[3], JSON.stringify(heard));
