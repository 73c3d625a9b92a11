// -div(a grad u) = 1 on the unit square, u = 0 on its boundary: the solver that made the training data, in the page.
//
// Finite volumes on n x n nodes, boundary included, with harmonic means as face coefficients; conjugate gradients,
// preconditioned by the exact inverse of the Laplacian in the sine basis, so that the number of iterations depends on
// the contrast of a alone. A product with the sine matrix is n^3 operations: fast enough up to some 130 nodes a side.
"use strict";

const sineTables = new Map();

/** The orthogonal, symmetric sine matrix of m interior nodes, and the eigenvalues of the 1-D Laplacian. */
function sineTable(m) {
  if (!sineTables.has(m)) {
    const matrix = new Float64Array(m * m), eigen = new Float64Array(m), scale = Math.sqrt(2 / (m + 1));
    for (let i = 0; i < m; i++) {
      eigen[i] = (2 * (m + 1) * Math.sin((Math.PI / 2) * ((i + 1) / (m + 1)))) ** 2;
      for (let j = 0; j < m; j++)
        matrix[i * m + j] = scale * Math.sin((Math.PI * (((i + 1) * (j + 1)) % (2 * (m + 1)))) / (m + 1));
    }
    sineTables.set(m, { matrix, eigen });
  }
  return sineTables.get(m);
}

/** (S x)^T for the symmetric matrix S; applied twice it transforms both axes and restores their order. */
function sineAlongRows(x, matrix, m) {
  const out = new Float64Array(m * m), sums = new Float64Array(m);
  for (let row = 0; row < m; row++) {
    sums.fill(0);
    for (let k = 0; k < m; k++) {
      const value = x[row * m + k], start = k * m;
      for (let j = 0; j < m; j++) sums[j] += value * matrix[start + j];
    }
    for (let j = 0; j < m; j++) out[j * m + row] = sums[j];
  }
  return out;
}

function inverseLaplacian(r, m) {
  const { matrix, eigen } = sineTable(m);
  const hat = sineAlongRows(sineAlongRows(r, matrix, m), matrix, m);
  for (let i = 0; i < m; i++) for (let j = 0; j < m; j++) hat[i * m + j] /= eigen[i] + eigen[j];
  return sineAlongRows(sineAlongRows(hat, matrix, m), matrix, m);
}

/** Coefficients of the faces right of and below every node, over h^2. */
function faceCoefficients(a, n) {
  const cells = (n - 1) ** 2, right = new Float64Array(n * n), below = new Float64Array(n * n);
  const harmonic = (p, q) => (2 * p * q * cells) / (p + q);
  for (let i = 0; i < n; i++)
    for (let j = 0; j < n; j++) {
      const at = i * n + j;
      if (j < n - 1) right[at] = harmonic(a[at], a[at + 1]);
      if (i < n - 1) below[at] = harmonic(a[at], a[at + n]);
    }
  return { right, below };
}

/** A u on the m x m interior nodes. */
function applyOperator(u, faces, n) {
  const m = n - 2, out = new Float64Array(m * m);
  for (let i = 0; i < m; i++)
    for (let j = 0; j < m; j++) {
      const at = i * m + j, node = (i + 1) * n + (j + 1), here = u[at];
      const west = j > 0 ? u[at - 1] : 0, east = j < m - 1 ? u[at + 1] : 0;
      const north = i > 0 ? u[at - m] : 0, south = i < m - 1 ? u[at + m] : 0;
      out[at] =
        faces.right[node] * (here - east) + faces.right[node - 1] * (here - west) +
        faces.below[node] * (here - south) + faces.below[node - n] * (here - north);
    }
  return out;
}

const dot = (x, y) => {
  let sum = 0;
  for (let i = 0; i < x.length; i++) sum += x[i] * y[i];
  return sum;
};

/** u on n x n nodes for the coefficient `a`, and how many iterations it took. */
function solveDarcy(a, n, tolerance = 1e-8) {
  const m = n - 2, faces = faceCoefficients(a, n);
  const u = new Float64Array(m * m), r = new Float64Array(m * m).fill(1);
  const target = tolerance * m;
  let z = inverseLaplacian(r, m), rz = dot(r, z), iterations = 0;
  const p = z.slice();
  for (; Math.sqrt(dot(r, r)) > target && iterations < 500; iterations++) {
    const ap = applyOperator(p, faces, n), step = rz / dot(p, ap);
    for (let i = 0; i < u.length; i++) {
      u[i] += step * p[i];
      r[i] -= step * ap[i];
    }
    z = inverseLaplacian(r, m);
    const previous = rz;
    rz = dot(r, z);
    for (let i = 0; i < p.length; i++) p[i] = z[i] + (rz / previous) * p[i];
  }
  const full = new Float64Array(n * n);
  for (let i = 0; i < m; i++) full.set(u.subarray(i * m, (i + 1) * m), (i + 1) * n + 1);
  return { u: full, iterations };
}
