// Prints what each of three workers of a node:cluster finds. The last one says that it is alone.
const cluster = require('node:cluster');
const { readRankEnvironment } = require('../../dist/environment/rank-environment');

if (cluster.isPrimary) {
  for (const env of [{}, {}, { RANK: '0', WORLD_SIZE: '1' }])
    cluster.fork(env).on('message', text => console.log(text));
} else {
  process.send(found(), () => process.disconnect());
}

function found() {
  try {
    const { rank, worldSize } = readRankEnvironment();
    return `rank ${rank} of ${worldSize}`;
  } catch ({ code, message }) {
    return `${code} ${message}`;
  }
}
