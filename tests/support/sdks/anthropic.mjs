// Holds conversations by messages, each turn asked for whole and as a stream.
// `node anthropic.mjs PLAN RESULT`, both JSON files; see agents_sdks.py, which writes and reads them.
import { readFileSync, writeFileSync } from "node:fs";
import Anthropic from "@anthropic-ai/sdk";

const plan = JSON.parse(readFileSync(process.argv[2], "utf8"));
const client = new Anthropic({ baseURL: plan.url, apiKey: plan.key, maxRetries: 0 });

async function messages({ script, scripted, question, turns, asked }) {
  const options = { headers: scripted ? { "x-sim-script": script } : {} };
  const messages = [{ role: "user", content: question }];
  const heard = [];
  for (let turn = 0; turn < turns; turn++) {
    const whole = await client.messages.create({ ...asked, messages }, options);
    const streamed = await client.messages.stream({ ...asked, messages }, options).finalMessage();
    heard.push({ whole, streamed });
    messages.push({ role: "assistant", content: streamed.content });
    const results = streamed.content
      .filter((block) => block.type === "tool_use")
      .map((call) => ({ type: "tool_result", tool_use_id: call.id, content: `Result of ${call.name}` }));
    messages.push({ role: "user", content: results.length ? results : "And then?" });
  }
  return heard;
}

const heard = {};
for (const conversation of plan.conversations) {
  try {
    heard[conversation.script] = { turns: await messages(conversation) };
  } catch (error) {
    heard[conversation.script] = { turns: [], error: String(error.stack) };
  }
}
writeFileSync(process.argv[3], JSON.stringify(heard));
