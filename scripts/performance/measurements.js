// What docs/performance.md shows: from each name to its commands, and to the table of their results, whose first row is
// the heading. A command prints one JSON object a line, or writes one to FILE; `pick` takes from it what is kept.

const gradring = words => `npx gradring ${words} --json`;
const ranks = (count, words) => `npx gradring run -n ${count} --no-prefix scripts/${words}`;

const VALUES = ['float32', 'float16', 'bfloat16', 'log4', 'int8'];
const DISTRIBUTIONS = ['laplace', 'sparse', 'sorted', 'equal', 'one-huge', 'zero', 'denormal'];
/** The gradient of ResNet-50 as one array. */
const ELEMENTS = 25_600_000;
const wholeArray = `--min-bytes ${4 * ELEMENTS} --max-bytes ${4 * ELEMENTS}`;
/** How long the line alone takes for the dense ring's share of a rank, at 100 Mbit/s, in ms. */
const lineMs = count => ((2 * (count - 1)) / count) * ((ELEMENTS * 4 * 8) / 100_000);
const sparse = words => gradring(`bench sparse-all-reduce --elements ${ELEMENTS} ${words}`);

const number = (value, digits = 0) =>
  value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
const percent = fraction => `${number(100 * fraction, 2)} %`;
const megabytes = bytes => `${number(bytes / 1e6, 1)} MB`;
/** Milliseconds with at least three digits, but two decimals at most. */
const ms = value => number(value, value < 10 ? 2 : value < 100 ? 1 : 0);
const mean = numbers => numbers.reduce((sum, each) => sum + each, 0) / numbers.length;
const sum = numbers => numbers.reduce((total, each) => total + each, 0);

/** The rows that have the same values of some keys, in the order of the first of each. */
function grouped(rows, ...keys) {
  const groups = new Map();
  for (const row of rows) {
    const key = keys.map(name => row[name]).join();
    groups.set(key, [...(groups.get(key) ?? []), row]);
  }
  return [...groups.values()];
}

const digits = words => ranks(4, `train/digits.js ${words} --no-table --json FILE`);

/** What a table of the digits needs of a result. */
const accuracyOf = result => {
  const { trainings } = result.dgc ?? result.dense;
  return trainings.map(({ seed, accuracy, bytesSent }) => ({ seed, accuracy, bytesSent }));
};

const compressRow = ({ density, floorMs, timeMs, timesFloor, phaseMs }) => [
  String(density),
  ms(floorMs),
  ms(timeMs.p50),
  number(timesFloor, 2),
  ...[phaseMs.compressMs, phaseMs.encodeMs, phaseMs.settleMs].map(each => ms(each)),
];

const MEASUREMENTS = {
  values: {
    commands: [digits('--methods dense'), ...VALUES.map(values => digits(`--methods dgc --values ${values}`))],
    pick: accuracyOf,
    table: runs => [
      ['', 'test accuracy, each seed', 'mean', 'sent by a rank, all trainings'],
      ...runs.map(({ rows }, i) => [
        i === 0 ? 'dense' : `\`--values ${VALUES[i - 1]}\``,
        rows.map(({ accuracy }) => percent(accuracy)).join(', '),
        percent(mean(rows.map(({ accuracy }) => accuracy))),
        megabytes(sum(rows.map(({ bytesSent }) => bytesSent))),
      ]),
    ],
  },

  'short trainings': {
    commands: [ranks(2, 'short-trainings.js')],
    table: ([{ rows }]) => [
      [
        'optimizer',
        'steps',
        ...grouped(rows, 'optimizer', 'steps')[0].map(({ compression }) => compression.replace(/.*\(\)/, '`$&`')),
      ],
      ...grouped(rows, 'optimizer', 'steps').map(cells => [
        cells[0].optimizer,
        String(cells[0].steps),
        ...cells.map(({ losses, ratio }) => `${losses.map(loss => loss.toFixed(3)).join(', ')} (${number(ratio)}×)`),
      ]),
    ],
  },

  codec: {
    commands: [gradring('bench codec')],
    table: ([{ rows }]) => [
      ['model', 'dense bytes', 'float16', 'ratio', 'int8', 'ratio', 'bits an index, entropy'],
      ...grouped(rows, 'model').map(cells => [
        cells[0].model,
        number(cells[0].denseBytes),
        ...cells.flatMap(({ wireBytes, compressionRatio }) => [number(wireBytes), number(compressionRatio, 1)]),
        `${number(cells[0].bitsPerIndex, 2)}, ${number(cells[0].entropyBitsPerIndex, 2)}`,
      ]),
    ],
  },

  compress: {
    commands: [gradring('bench compress')],
    table: ([{ rows }]) => [
      ['density', 'floor ms', 'step ms', '× floor', 'compress ms', 'encode ms', 'settle ms'],
      ...rows.map(row => compressRow(row)),
    ],
  },

  threads: {
    commands: ['node scripts/performance/thread-times.js'],
    table: ([{ rows }]) => [
      [
        'density',
        ...['floor', 'compress', 'encode', 'decode', 'step'].map(part => `${part} ms`),
        '× floor',
        'times as fast',
      ],
      ...rows.map(({ density, rows: cells }) => [
        density === 'lowRank' ? 'low rank' : String(density),
        ...['floorMs', 'compressMs', 'encodeMs', 'decodeMs', 'stepMs'].map(part =>
          cells.map(cell => ms(cell[part])).join(', '),
        ),
        cells.map(({ compressMs, encodeMs, floorMs }) => number((compressMs + encodeMs) / floorMs, 2)).join(', '),
        number(cells[0].stepMs / cells.at(-1).stepMs, 2),
      ]),
    ],
  },

  'other gradients': {
    commands: [
      ...DISTRIBUTIONS.map(name => gradring(`bench compress --density 0.001 --distribution ${name}`)),
      gradring('bench compress --density 0.001 --clip-norm 1'),
    ],
    table: runs => [
      ['gradient', 'floor ms', 'step ms', '× floor'],
      ...runs.map(({ rows: [row] }, i) => [DISTRIBUTIONS[i] ?? 'normal, clipped', ...compressRow(row).slice(1, 4)]),
    ],
  },

  decode: {
    commands: [gradring('bench decode')],
    table: ([{ rows }]) => [
      ['ranks', 'density', 'floor ms', 'decode ms', '× floor'],
      ...rows.map(({ ranks: count, density, floorMs, timeMs, timesFloor }) => [
        ...[String(count), String(density), ms(floorMs), ms(timeMs.p50), number(timesFloor, 2)],
      ]),
    ],
  },

  optimizer: {
    commands: [gradring('bench optimizer')],
    table: ([{ rows }]) => [
      ['backend', 'plain ms', 'wrapped ms', 'ratio', 'copy out', 'compress', 'exchange', 'copy in'],
      ...rows.map(({ backend, plainMs, wrappedMs, ratio, split }) => [
        ...[backend, ms(plainMs), ms(wrappedMs), number(ratio, 2)],
        ...[split.copyOut, split.compress, split.exchange, split.copyIn].map(each => ms(each)),
      ]),
    ],
  },

  'large models': {
    commands: [
      ranks(2, 'large-model.js --parameters 300e6'),
      ranks(2, 'large-model.js --parameters 300e6 --arena-gib 2'),
      ranks(1, 'large-model.js --parameters 1e9 --tensors 40'),
    ],
    table: runs => [
      [
        'parameters',
        'ranks',
        'arenas',
        'memory of a rank at most',
        '… after closing',
        'seconds of each step',
        'SHA-256 of the last update',
      ],
      ...runs.map(({ rows: [{ parameters, ranks: count, arenas, peakGb, closedGb, stepSeconds, sha256 }] }) => [
        ...[number(parameters), String(count), String(arenas), `${peakGb} GB`, `${closedGb} GB`],
        ...[stepSeconds.map(each => number(each, 2)).join(', '), sha256],
      ]),
    ],
  },

  checkpoints: {
    commands: ['wasm', 'cpu --batch 4'].map(options => ranks(1, `checkpoint-times.js --backend ${options}`)),
    table: runs => [
      [
        ...['backend', 'bytes a parameter', 'save, seconds', 'resume', 'in the background: waits', '… complete after'],
        ...['a step', 'four steps take longer by'],
      ],
      ...runs.map(({ rows: [{ backend, bytesPerParameter, ...times }] }) => [
        ...[backend, number(bytesPerParameter, 2)],
        ...['saveMs', 'resumeMs', 'waitMs', 'completeMs', 'stepMs', 'laterMs'].map(name =>
          times[name].map(each => number(each / 1000, 2)).join(', '),
        ),
      ]),
    ],
  },

  peers: {
    commands: ['node scripts/compare-peers.js --ranks 2,4 --elements 16384,262144,4194304,25600000 --json'],
    table: ([{ rows }]) => [
      ['ranks', 'bytes', 'tcp, ms', 'ipc, ms', 'Gloo, ms', 'Open MPI, ms', 'best ÷ tcp', 'best ÷ ipc'],
      ...rows.map(({ ranks: count, bytes, p50Us, tcpToBest, ipcToBest }) => [
        ...[String(count), number(bytes)],
        ...['gradring tcp', 'gradring ipc', 'gloo', 'open mpi tcp'].map(peer =>
          p50Us[peer] === undefined ? '–' : ms(p50Us[peer] / 1000),
        ),
        ...[number(tcpToBest, 2), number(ipcToBest, 2)],
      ]),
    ],
  },

  'slow links': {
    commands: [
      ...['off', 'on'].map(encryption =>
        gradring(`bench all-reduce -n 4 --netlab 1gbit ${wholeArray} --encryption ${encryption} --iterations 5`),
      ),
      `scripts/netlab with 4 --rate 1gbit --subnet 10.77.9.0/24 -- python3 scripts/peers/gloo.py --ranks 4 --elements ${ELEMENTS} --iterations 5 --rank {rank} --master 10.77.9.1 --iface eth0`,
      sparse('-n 4 --netlab 1gbit'),
    ],
    table: runs => [
      ['what', 'ms, median'],
      ...runs.map(({ rows: [{ timeUs, p50Us = timeUs.p50 }] }, i) => [
        [
          'gradring, dense, not encrypted',
          'gradring, dense, encrypted',
          'Gloo, dense',
          'gradring, sparse step at 0.001',
        ][i],
        ms(p50Us / 1000),
      ]),
    ],
  },

  'slower links': {
    commands: [4, 8, 16].flatMap(count => [
      sparse(`-n ${count} --netlab 10mbit --iterations 5`),
      gradring(`bench all-reduce -n ${count} --netlab 100mbit ${wholeArray} --iterations 3 --warm-up 1`),
    ]),
    table: runs => [
      ['ranks', 'sparse at 10 Mbit/s, ms', 'dense at 100 Mbit/s, ms', 'dense, were it bound by the line alone'],
      ...runs
        .filter((_, i) => i % 2 === 0)
        .map(({ rows: [row] }, i) => [
          ...[String(row.ranks), ms(row.timeUs.p50 / 1000), ms(runs[2 * i + 1].rows[0].timeUs.p50 / 1000)],
          ms(lineMs(row.ranks)),
        ]),
    ],
  },

  forming: {
    commands: [gradring('bench form -n 60,250'), gradring('bench form -n 1000')],
    table: runs => [
      [
        ...['ranks', 'processes', 'connected after', 'first barrier', 'processor time', 'memory', 'descriptors'],
        ...['… of a process', 'threads', 'to rank 0: messages, bytes', 'from rank 0: messages, bytes'],
      ],
      ...runs
        .flatMap(({ rows }) => rows)
        .map(row => [
          ...[number(row.ranks), String(row.processes), `${number(row.connectSeconds, 1)} s`],
          ...[`${number(row.barrierMs / 1000, 1)} s`, `${number(row.cpuSeconds)} s`],
          `${number(row.memoryBytes / 1e9, 2)} GB`,
          ...[row.descriptors, row.mostDescriptors, row.threads].map(each => number(each)),
          `${number(row.rendezvous.messagesReceived)}, ${number(row.rendezvous.bytesReceived)}`,
          `${number(row.rendezvous.messagesSent)}, ${number(row.rendezvous.bytesSent)}`,
        ]),
    ],
  },

  choice: {
    commands: [2, 4].map(count =>
      sparse(`-n ${count} --density 0.25,0.0625,0.015625,0.001 --way sparse,dense,auto --iterations 5`),
    ),
    table: runs => [
      ['ranks', 'density', 'sparse ms', 'dense ms', '`auto` chooses'],
      ...runs.flatMap(({ rows }) =>
        grouped(rows, 'density').map(ways => {
          const [first, second, auto] = ways;
          const times = [first, second].map(({ timeUs }) => ms(timeUs.p50 / 1000));
          return [String(first.ranks), String(first.density), ...times, auto.travelled];
        }),
      ),
    ],
  },

  encryption: {
    commands: ['on', 'off', 'on', 'off', 'on', 'off'].map(encryption =>
      gradring(
        `bench all-reduce -n 2 --transport tcp --encryption ${encryption} ${wholeArray} --iterations 5 --warm-up 5`,
      ),
    ),
    table: runs => [
      ['encryption', 'ms, three medians'],
      ...['on', 'off'].map((encryption, i) => [
        `\`${encryption}\``,
        runs
          .filter((_, run) => run % 2 === i)
          .map(({ rows: [{ timeUs }] }) => ms(timeUs.p50 / 1000))
          .join(', '),
      ]),
    ],
  },

  'wasm gradients': {
    commands: ['node scripts/wasm-gradient-times.js'],
    table: ([{ rows }]) => [
      ['x', 'filter', 'strides', 'forward ms', 'filter gradient ms', 'input gradient ms', '… of TensorFlow.js alone'],
      ...rows.map(({ input, filter, strides, ...times }) => [
        ...[`[${input.join()}]`, `[${filter.join()}]`, String(strides)],
        ...['forwardMs', 'filterGradientMs', 'inputGradientMs', 'stockInputGradientMs'].map(name => ms(times[name])),
      ]),
    ],
  },
};

module.exports = { MEASUREMENTS };
