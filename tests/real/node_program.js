// The program of node.sh: everything that makes V8, libuv and zlib allocate, with output that depends on the results only.
// SPDX-License-Identifier: BSD-2-Clause
const { Worker, isMainThread, workerData, parentPort } = require('worker_threads');
const zlib = require('zlib');
const crypto = require('crypto');

const digest = (data) => crypto.createHash('sha256').update(data).digest('hex').slice(0, 16);

function work(seed) {
  const map = new Map();
  for (let i = 0; i < 100000; i++) {
    const key = `key${(i * 7919 + seed) % 20011}`;
    if (!map.has(key)) map.set(key, []);
    map.get(key).push({ i, text: 'x'.repeat(i % 50), list: [i, i + 1] });
  }
  const json = JSON.stringify([...map.entries()].sort((a, b) => (a[0] < b[0] ? -1 : 1)));
  const again = JSON.parse(json);
  const buffers = [];
  for (let i = 0; i < 3000; i++) {
    buffers.push(Buffer.alloc((i * 37) % 20000, i % 256));
    if (i % 3 === 0) buffers.splice((i * 31) % buffers.length, 1);
  }
  const replaced = json.slice(0, 500000).replace(/"text":"(x*)"/g, (_, xs) => xs.length);
  return [again.length, digest(json), digest(Buffer.concat(buffers)), digest(replaced)].join(' ');
}

async function main() {
  console.log(work(1));
  const packed = zlib.gzipSync(Buffer.from('some text that repeats '.repeat(200000)));
  console.log(packed.length, digest(zlib.gunzipSync(packed)));
  const streams = await Promise.all([1, 2, 3, 4].map((level) => new Promise((resolve) =>
    zlib.deflate(Buffer.alloc(3000000, `level ${level}`), { level }, (_, out) => resolve(out.length)))));
  console.log(streams.join(' '));
  const results = await Promise.all([2, 3, 4].map((seed) => new Promise((resolve, reject) => {
    const worker = new Worker(__filename, { workerData: seed });
    worker.on('message', resolve);
    worker.on('error', reject);
  })));
  console.log(results.join('\n'));
}

if (isMainThread) main();
else parentPort.postMessage(work(workerData));
