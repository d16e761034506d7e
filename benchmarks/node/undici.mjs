// Undici behind p-limit: requests per second, measured in this process as benchmarks/client.py measures in its own.
//
// It says "ready". Then each line of standard input, "url requests at_once", is one sample, and its answer is one line.
// It ends with its standard input, so it cannot outlive who started it.

import { createInterface } from "node:readline";

import pLimit from "p-limit";
import { Agent, request } from "undici";

// As many connections as are in flight, kept as long as comity and aiohttp keep theirs.
const dispatcher = new Agent({ keepAliveTimeout: 15_000 });

async function speed(url, requests, atOnce) {
  const limit = pLimit(atOnce);
  const get = async () => {
    const { body } = await request(url, { dispatcher });
    await body.bytes();
  };
  const began = performance.now();
  await Promise.all(Array.from({ length: requests }, () => limit(get)));
  return (requests / (performance.now() - began)) * 1000;
}

console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const [url, requests, atOnce] = line.split(" ");
  console.log(await speed(url, Number(requests), Number(atOnce)));
}
