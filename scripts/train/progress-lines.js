const { Transform } = require('node:stream');

/** The prefix of a line that the next such line may replace. */
const PROGRESS = '\u25b8 ';

/**
 * A stream in front of standard output. On a terminal each progress line overwrites the one before. In a log file all
 * lines stay.
 *
 * @param {NodeJS.WriteStream} output
 */
function progressLines(output) {
  let rest = '';
  let standing = false; // a progress line is on the terminal, with the cursor behind it
  const lines = new Transform({
    transform(chunk, _encoding, done) {
      const pieces = chunk.toString('utf8').split('\n');
      pieces[0] = rest + pieces[0]; // not searched again
      rest = pieces.pop();
      for (const line of pieces) {
        const isProgress = line.startsWith(PROGRESS);
        const clear = standing ? '\r\x1b[2K' : '';
        standing = output.isTTY === true && isProgress;
        this.push(standing ? clear + line.slice(0, output.columns - 1) : `${clear}${line}\n`);
      }
      done();
    },
    flush(done) {
      done(null, standing ? `\n${rest}` : rest);
    },
  });
  output.on('error', () => process.exit(1)); // `npm start | head`
  lines.pipe(output, { end: false });
  return lines;
}

module.exports = { PROGRESS, progressLines };
