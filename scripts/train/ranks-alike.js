/** How many ranks ended a training with the weights of rank 0, bit for bit. */
function ranksAlike({ weightsHashes }) {
  return weightsHashes.filter(hash => hash === weightsHashes[0]).length;
}

module.exports = { ranksAlike };
