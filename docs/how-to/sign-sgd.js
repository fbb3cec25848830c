// signSGD with majority vote (Bernstein et al., ICML 2018): each rank sends the sign of each element, and the update is
// the sign that most ranks have sent. A compressor for customCompression(), used by compressor.md.

/** @type {import('gradring').CompressorFactory} */
module.exports = () => ({
  errorFeedback: false,

  async average({ values, mean }, ring) {
    const message = new Uint8Array(Math.ceil(values.length / 8));
    values.forEach((value, i) => (message[i >> 3] |= Number(value < 0) << (i & 7)));

    await ring.gather(message, bits => {
      if (bits.length !== message.length) throw new Error('It has another length.');
      for (let i = 0; i < mean.length; i++) mean[i] += (bits[i >> 3] >> (i & 7)) & 1 ? -1 : 1;
    });
    for (let i = 0; i < mean.length; i++) mean[i] = Math.sign(mean[i]);
  },
});
