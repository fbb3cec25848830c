import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import path from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../support/rings';

const run = promisify(execFile);

test('two processes of torchrun are a ring, though its agent holds MASTER_PORT', async () => {
  const agent = createServer().listen(await freePort(), '127.0.0.1');
  await once(agent, 'listening');
  const library = JSON.stringify(path.join(__dirname, '../../dist/communicator/communicator.js'));
  const program = `require(${library}).Communicator.connect().then(async ring => {
    console.log((await ring.allReduce(new Float32Array(1).fill(ring.rank + 1)))[0]);
    await ring.close();
  })`;
  const { port } = agent.address() as { port: number };
  const variables = {
    ...{ WORLD_SIZE: '2', LOCAL_WORLD_SIZE: '2', MASTER_ADDR: 'localhost', MASTER_PORT: String(port) },
    ...{ TORCHELASTIC_USE_AGENT_STORE: 'True', TORCHELASTIC_RUN_ID: 'none', TORCHELASTIC_RESTART_COUNT: '0' },
  };
  const ranks = ['0', '1'].map(RANK => {
    const env = { ...process.env, ...variables, RANK, LOCAL_RANK: RANK };
    return run(process.execPath, ['-e', program], { env });
  });
  const outputs = await Promise.all(ranks).finally(() => agent.close());
  expect(outputs.map(({ stdout }) => stdout)).toEqual(['3\n', '3\n']);
});
