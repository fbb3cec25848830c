import { ExchangeHandle } from '../../src/exchange/exchange-handle';
import { noCompression } from '../../src/compression/dgc-options';

const ELEMENTS = 10_000;

function open(): ExchangeHandle {
  const never = (): never => {
    throw new Error('Nothing goes to the comm thread here.');
  };
  const variables = [
    { name: 'first', shape: [3] },
    { name: 'second', shape: [ELEMENTS] },
  ];
  const input = { variables, compression: noCompression(), nesterov: false };
  return new ExchangeHandle(input, { start: never, conclude: never, close: () => undefined });
}

const numbers = () => Float32Array.from({ length: ELEMENTS }, (_, i) => i - 0.5);

test('a gradient that is written is in the segment of its variable; the array stays the caller’s', () => {
  const exchange = open();
  const values = numbers();
  exchange.writeGradient(1, values);
  expect(Array.from(exchange.gradient(1))).toEqual(Array.from(numbers()));
  expect(Array.from(exchange.gradient(0))).toEqual([0, 0, 0]);
  expect(values).toHaveLength(ELEMENTS);
  exchange.writeGradient(0, numbers().subarray(5, 8));
  expect(Array.from(exchange.gradient(0))).toEqual([4.5, 5.5, 6.5]);
  exchange.close();
});

test('one that is given away has its memory freed, unless it is part of something larger', () => {
  const exchange = open();
  const values = numbers();
  exchange.writeGradient(1, values, true);
  expect(values).toHaveLength(0);
  expect(Array.from(exchange.gradient(1))).toEqual(Array.from(numbers()));
  const larger = new Float32Array(ELEMENTS + 1);
  exchange.writeGradient(1, larger.subarray(1), true);
  expect(larger).toHaveLength(ELEMENTS + 1);
  exchange.close();
});
