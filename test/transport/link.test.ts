import { GradringError } from '../../src/errors';
import { Link } from '../../src/transport/link';
import { sleep } from '../support/rings';

const OPTIONS = { heartbeatTimeoutMs: 10_000 };

test('what is said after an interruption follows the send that waited; those behind it are not sent', async () => {
  const { link: receiver, endpoint } = Link.listen('tcp://127.0.0.1:*', OPTIONS);
  const sender = Link.connect(endpoint, OPTIONS);
  const heard: string[] = [];
  let read!: () => void;
  const reads = new Promise<void>(resolve => (read = resolve));
  receiver.start({
    onMessage: ([first]) => {
      heard.push(String(first));
      return reads;
    },
    onLost: () => undefined,
  });
  sender.start({ onMessage: () => undefined, onLost: () => undefined });

  const body = Buffer.alloc(64 * 1024);
  const sends = Array.from({ length: 1_000 }, (_, i) =>
    sender.send([Buffer.from(String(i)), body]).then(
      () => 'taken',
      (error: GradringError) => error.code,
    ),
  );
  await sleep(500);
  sender.interrupt(new GradringError('ERR_TIMEOUT', 'The ring has failed.'));
  const outcomes = await Promise.all(sends);
  const taken = outcomes.filter(outcome => outcome === 'taken').length;
  expect(taken).toBeLessThan(900); // else nothing waited
  expect(outcomes).toEqual([
    ...Array<string>(taken).fill('taken'),
    ...Array<string>(1_000 - taken).fill('ERR_TIMEOUT'),
  ]);

  const said = sender.send([Buffer.from('abort')]);
  read();
  await said;
  while (!heard.includes('abort')) await sleep(10);
  expect(heard).toEqual([...Array.from({ length: taken + 1 }, (_, i) => String(i)), 'abort']);

  await Promise.all([sender.close(), receiver.close()]);
  await expect(sender.send([Buffer.from('late')])).rejects.toMatchObject({ code: 'ERR_CLOSED' });
});

test.each(['tcp://127.0.0.1:*', 'ipc:///tmp/gradring-link-test-*'])(
  'a peer that was gone before it could be reached is lost: %s',
  async address => {
    const { link, endpoint } = Link.listen(address.replace(/-\*$/, `-${process.pid}`), OPTIONS);
    await link.close();
    const late = Link.connect(endpoint, OPTIONS);
    await new Promise<void>(resolve => late.start({ onMessage: () => undefined, onLost: resolve }));
    await late.close();
  },
);
