#!/usr/bin/env bash
# A just-in-time compiler with a collector, worker threads and buffers outside of its heap.
cat > some.js <<'JS'
const { Worker, isMainThread, parentPort } = require('node:worker_threads');
const { createHash } = require('node:crypto');
const zlib = require('node:zlib');
function work(seed) {
  const map = new Map();
  for (let i = 0; i < 60000; i++) map.set('k' + ((i * 7919 + seed) % 50021), [i, String(i)]);
  const buffer = Buffer.alloc(4 << 20);
  for (let i = 0; i < buffer.length; i += 64) buffer.writeUInt32LE((i * 31 + seed) >>> 0, i);
  const packed = zlib.deflateSync(buffer, { level: 1 });
  return [map.size, createHash('sha256').update(buffer).digest('hex'), zlib.inflateSync(packed).equals(buffer)];
}
if (isMainThread) {
  console.log(...work(1));
  const results = [];
  for (let i = 0; i < 2; i++) {
    new Worker(__filename).once('message', (r) => {
      results.push(r.join(' '));
      if (results.length === 2) { console.log(results.sort().join('\n')); process.exit(7); }
    });
  }
} else parentPort.postMessage(work(2));
JS
node some.js
