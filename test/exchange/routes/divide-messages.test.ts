import { type LinkCost, localLinks } from '../../../src/exchange/link-cost';
import { pricesOf } from '../../../src/exchange/routes/choose-route';
import { divideMessages, type TensorMessage } from '../../../src/exchange/routes/divide-messages';
import { gatherCost } from '../../../src/exchange/routes/gather';
import { ringCost } from '../../../src/exchange/routes/ring';
import { random } from '../../support/random';

/** 1 Gbit/s. */
const GIGABIT: LinkCost = { byteNs: 8, hopNs: 300_000 };
const WITHOUT_HOPS: LinkCost = { byteNs: 8, hopNs: 0 };

const denseOf = (messages: readonly TensorMessage[], worldSize: number, links: LinkCost) =>
  divideMessages(messages, pricesOf(worldSize, links)).dense;

/** How long it takes if these are gathered, and the others take the dense ring. */
function timeNs(
  { gathered, dense }: ReturnType<typeof divideMessages>,
  prices: Parameters<typeof gatherCost>[1],
): number {
  const sum = (parts: readonly TensorMessage[], what: keyof TensorMessage) =>
    parts.reduce((total, each) => total + each[what], 0);
  const payload = { elements: 0, entries: 0, payloadBytes: sum(gathered, 'bits') / 8 };
  return (
    (gathered.length > 0 ? gatherCost(payload, prices).travelNs : 0) +
    (dense.length > 0 ? ringCost(sum(dense, 'elements'), prices).travelNs : 0)
  );
}

test('of large tensors on links without hops, those whose messages have more bytes go by the dense ring', () => {
  // N messages of as many bits as an element has in the dense ring, 2 · 32: with 3 bits an element from 22 ranks on.
  const tensor = { bits: 3e6, elements: 1e6 };
  const other = { bits: 0.25e6, elements: 1e6 };
  expect(denseOf([other, tensor], 21, WITHOUT_HOPS)).toEqual([]);
  expect(denseOf([other, tensor], 22, WITHOUT_HOPS)).toEqual([tensor]);
  expect(denseOf([other, tensor], 255, WITHOUT_HOPS)).toEqual([tensor]);
  expect(denseOf([other, tensor], 257, WITHOUT_HOPS)).toEqual([tensor, other]);
});

test('a few numbers are gathered: the dense ring would have more bytes, or more hops', () => {
  const large = { bits: 0.25e6, elements: 1e6 };
  for (const elements of [16, 500, 5_000]) {
    for (const worldSize of [2, 24, 64]) {
      expect(denseOf([large, { bits: 3 * elements, elements }], worldSize, GIGABIT)).toEqual([]);
    }
  }
});

test('a ring of one sends nothing, and takes the messages', () => {
  expect(denseOf([{ bits: 1e9, elements: 1 }], 1, GIGABIT)).toEqual([]);
});

test('no tensors', () => {
  expect(divideMessages([], pricesOf(4, GIGABIT))).toEqual({ gathered: [], dense: [] });
});

test('where most goes by the dense ring, the rest does too, and saves the hops of a gather', () => {
  const [long, short] = [{ bits: 1e9, elements: 1e6 }, { bits: 100, elements: 100 }]; // prettier-ignore
  expect(denseOf([short, long], 4, GIGABIT)).toEqual([long, short]);
});

test('no other division takes less time', () => {
  const next = random(1);
  for (let run = 0; run < 200; run++) {
    const messages = Array.from({ length: 6 }, () => {
      const elements = Math.round(10 ** (2 + 5 * next()));
      return { elements, bits: elements * 10 ** (2 * next() - 1) };
    });
    const prices = pricesOf(Math.round(2 ** (1 + 7 * next())), run % 2 === 0 ? GIGABIT : localLinks());
    const divided = divideMessages(messages, prices);
    expect([...divided.gathered, ...divided.dense].sort((a, b) => a.bits - b.bits)).toEqual(
      [...messages].sort((a, b) => a.bits - b.bits),
    );
    const least = Math.min(
      ...Array.from({ length: 2 ** messages.length }, (_, chosen) => {
        const isDense = (i: number) => ((chosen >> i) & 1) === 1;
        const parts = {
          gathered: messages.filter((_, i) => !isDense(i)),
          dense: messages.filter((_, i) => isDense(i)),
        };
        return timeNs(parts, prices);
      }),
    );
    // Where segments are cut may make another order a little better.
    expect(timeNs(divided, prices)).toBeLessThanOrEqual(1.05 * least);
  }
});
