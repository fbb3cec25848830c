import { LineOutput, StatusLine } from '../../src/launcher/line-output';
import { REPLACEABLE } from '../../src/status-line';
import { Capture } from './support';

/** A terminal that knows only what it means to erase a line: what it shows in the end. */
function shownOn({ text }: Capture): string[] {
  const lines = [''];
  for (const [part] of text.matchAll(/\r|\n|\x1b\[2K|[^\r\n\x1b]+/g)) {
    if (part === '\n') lines.push('');
    else if (part === '\r' || part === '\x1b[2K') lines[lines.length - 1] = '';
    else lines[lines.length - 1] += part;
  }
  return lines;
}

test('on a terminal, a status line stays at the bottom until its rank writes another line', async () => {
  const terminal = new Capture();
  const status = new StatusLine();
  const [out, err] = [new LineOutput(terminal, undefined, status), new LineOutput(terminal, undefined, status)];
  await err.write([`${REPLACEABLE}epoch 1: 10 %`], '[0] ');
  expect(shownOn(terminal)).toEqual(['[0] epoch 1: 10 %']);
  await out.write(['hello', 'world'], '[1] ');
  expect(shownOn(terminal)).toEqual(['[1] hello', '[1] world', '[0] epoch 1: 10 %']);
  await err.write([`${REPLACEABLE}epoch 1: 20 %`, `${REPLACEABLE}epoch 1: 30 %`], '[0] ');
  expect(shownOn(terminal)).toEqual(['[1] hello', '[1] world', '[0] epoch 1: 30 %']);
  await err.write(['epoch 1: done'], '[0] ');
  expect(shownOn(terminal)).toEqual(['[1] hello', '[1] world', '[0] epoch 1: done', '']);
  await err.write([`${REPLACEABLE}epoch 2: 10 %`], '[0] ');
  await err.release();
  expect(shownOn(terminal)).toEqual(['[1] hello', '[1] world', '[0] epoch 1: done', '']);
});
