import { messageIn, toText } from '../../src/rendezvous/text-message';

test('a message comes through text as it was', () => {
  const message = { kind: 'listening', rank: 3, endpoint: 'tcp://[fe80::1]:4711' } as const;
  expect(toText(message)).toMatch(/^[A-Za-z0-9+/]+=*$/);
  expect(messageIn([Buffer.from(toText(message))])).toEqual(message);
});

test.each(['', 'A', '!!!!', 'GET / HTTP/1.1\r\n\r\n', '\0'.repeat(100), '\xff'.repeat(1_000)])(
  '%j is no message',
  text => {
    expect(() => messageIn([Buffer.from(text, 'latin1')])).toThrow(expect.objectContaining({ code: 'ERR_PROTOCOL' }));
  },
);

test.each([0, 2, 3_000])('%i parts are no message', count => {
  const parts = Array<Buffer>(count).fill(Buffer.from(toText({ kind: 'leave', rank: 1 })));
  expect(() => messageIn(parts)).toThrow(`A frame comes in ${count} parts.`);
});
