// Programs of `library_cases.py` with their derivatives, as one would write them by hand in C++.
//
// A function gets its arguments (`in`), all their extents in a row (`n`), and room for what it
// computes beside the value that it returns (`out`): the gradients in the arguments that the case
// names, or the new parameters of a training step.

#include <chrono>
#include <cmath>
#include <cstddef>
#include <vector>

using Arrays = const double *const *;
using Results = double *const *;
using Extents = const long *;

extern "C" double rosenbrock(Arrays in, Extents n, Results out) {
  const double *x = in[0];
  double *g = out[0], value = 0.0;
  const long last = n[0] - 1;
  g[0] = 0.0;
  for (long i = 0; i < last; ++i) {
    const double bend = x[i + 1] - x[i] * x[i], rest = 1.0 - x[i];
    value += 100.0 * bend * bend + rest * rest;
    g[i] += -400.0 * bend * x[i] - 2.0 * rest;
    g[i + 1] = 200.0 * bend;
  }
  return value;
}

extern "C" double tanh_exp(Arrays in, Extents n, Results out) {
  const double *x = in[0], *w = in[1], *b = in[2];
  double *gx = out[0], *gw = out[1], *gb = out[2], value = 0.0;
  for (long i = 0; i < n[0]; ++i) {
    const double t = std::tanh(x[i] * w[i] + b[i]), e = std::exp(-x[i] * x[i]);
    value += t * e;
    const double slope = (1.0 - t * t) * e;
    gx[i] = slope * w[i] - 2.0 * x[i] * t * e;
    gw[i] = slope * x[i];
    gb[i] = slope;
  }
  return value;
}

extern "C" double diffusion(Arrays in, Extents n, Results out) {
  const double *u = in[0];
  double *g = out[0], value = 0.0;
  const long rows = n[0], columns = n[1];
  for (long i = 0; i < rows * columns; ++i) g[i] = 0.0;
  for (long i = 1; i < rows - 1; ++i) {
    for (long j = 1; j < columns - 1; ++j) {
      const long at = i * columns + j;
      const double across =
          u[at + columns] + u[at - columns] + u[at + 1] + u[at - 1] - 4.0 * u[at];
      const double slope = 2.0 * across;
      value += across * across;
      g[at + columns] += slope;
      g[at - columns] += slope;
      g[at + 1] += slope;
      g[at - 1] += slope;
      g[at] -= 4.0 * slope;
    }
  }
  return value;
}

extern "C" double logistic(Arrays in, Extents n, Results out) {
  const double *w = in[0], *x = in[1], *y = in[2];
  double *g = out[0], value = 0.0;
  const long features = n[0], count = n[1];
  for (long j = 0; j < features; ++j) g[j] = 0.0;
  for (long i = 0; i < count; ++i, x += features) {
    double z = 0.0;
    for (long j = 0; j < features; ++j) z += x[j] * w[j];
    const double e = std::exp(z), slope = (e / (1.0 + e) - y[i]) / count;
    value += std::log(1.0 + e) - y[i] * z;
    for (long j = 0; j < features; ++j) g[j] += slope * x[j];
  }
  return value / count;
}

// c += a b, of l x m and m x n numbers.
static void add_product(const double *a, const double *b, double *c, long l, long m, long n) {
  for (long i = 0; i < l; ++i)
    for (long k = 0; k < m; ++k)
      for (long j = 0; j < n; ++j) c[i * n + j] += a[i * m + k] * b[k * n + j];
}

// c -= rate a^T b, of l x m and l x n numbers.
static void descend(const double *a, const double *b, double *c, long l, long m, long n,
                    double rate) {
  for (long i = 0; i < l; ++i)
    for (long k = 0; k < m; ++k)
      for (long j = 0; j < n; ++j) c[k * n + j] -= rate * a[i * m + k] * b[i * n + j];
}

extern "C" double training_step(Arrays in, Extents n, Results out) {
  const double *w1 = in[0], *b1 = in[1], *w2 = in[2], *b2 = in[3], *x = in[4], *y = in[5];
  const long inputs = n[0], hidden = n[1], classes = n[4], batch = n[6];
  const double rate = 0.01;
  double value = 0.0;
  std::vector<double> h(batch * hidden), z(batch * classes), gh(batch * hidden, 0.0);

  for (long i = 0; i < batch; ++i)
    for (long j = 0; j < hidden; ++j) h[i * hidden + j] = b1[j];
  add_product(x, w1, h.data(), batch, inputs, hidden);
  for (double &each : h) each = std::tanh(each);
  for (long i = 0; i < batch; ++i)
    for (long j = 0; j < classes; ++j) z[i * classes + j] = b2[j];
  add_product(h.data(), w2, z.data(), batch, hidden, classes);

  for (long i = 0; i < batch; ++i) {  // z becomes the gradient in z
    double *row = &z[i * classes], total = 0.0;
    for (long j = 0; j < classes; ++j) {
      value -= y[i * classes + j] * row[j];
      row[j] = std::exp(row[j]);
      total += row[j];
    }
    value += std::log(total);
    for (long j = 0; j < classes; ++j) row[j] = (row[j] / total - y[i * classes + j]) / batch;
  }
  for (long i = 0; i < batch; ++i)
    for (long k = 0; k < hidden; ++k) {
      double slope = 0.0;
      for (long j = 0; j < classes; ++j) slope += z[i * classes + j] * w2[k * classes + j];
      const double t = h[i * hidden + k];
      gh[i * hidden + k] = slope * (1.0 - t * t);
    }

  const long sizes[] = {inputs * hidden, hidden, hidden * classes, classes};
  for (int k = 0; k < 4; ++k)
    for (long i = 0; i < sizes[k]; ++i) out[k][i] = in[k][i];
  descend(x, gh.data(), out[0], batch, inputs, hidden, rate);
  descend(h.data(), z.data(), out[2], batch, hidden, classes, rate);
  for (long i = 0; i < batch; ++i) {
    for (long j = 0; j < hidden; ++j) out[1][j] -= rate * gh[i * hidden + j];
    for (long j = 0; j < classes; ++j) out[3][j] -= rate * z[i * classes + j];
  }
  return value / batch;
}

// The states of h <- tanh(w h + x), from h = the first row of x on.
static std::vector<double> recurrent_states(const double *w, const double *xs, long steps,
                                            long size) {
  std::vector<double> states((steps + 1) * size);
  for (long j = 0; j < size; ++j) states[j] = xs[j];
  for (long i = 0; i < steps; ++i)
    for (long j = 0; j < size; ++j) {
      double z = xs[i * size + j];
      for (long k = 0; k < size; ++k) z += w[j * size + k] * states[i * size + k];
      states[(i + 1) * size + j] = std::tanh(z);
    }
  return states;
}

// The gradient in w, where the value has `slope(i, j)` for a derivative in state j of step i.
template <class Slope>
static void recurrent_gradient(const double *w, const std::vector<double> &states, long steps,
                               long size, double *g, Slope slope) {
  std::vector<double> before(size), now(size, 0.0);
  for (long j = 0; j < size * size; ++j) g[j] = 0.0;
  for (long i = steps - 1; i >= 0; --i) {
    for (long k = 0; k < size; ++k) before[k] = 0.0;
    for (long j = 0; j < size; ++j) {
      const double t = states[(i + 1) * size + j];
      const double z = (now[j] + slope(i, j)) * (1.0 - t * t);
      for (long k = 0; k < size; ++k) {
        g[j * size + k] += z * states[i * size + k];
        before[k] += z * w[j * size + k];
      }
    }
    now.swap(before);
  }
}

extern "C" double recurrent_sum(Arrays in, Extents n, Results out) {
  const long size = n[0], steps = n[2];
  const auto states = recurrent_states(in[0], in[1], steps, size);
  double value = 0.0;
  for (long j = 0; j < size; ++j) value += states[steps * size + j];
  recurrent_gradient(in[0], states, steps, size, out[0],
                     [=](long i, long) { return i == steps - 1 ? 1.0 : 0.0; });
  return value;
}

extern "C" double recurrent_squares(Arrays in, Extents n, Results out) {
  const long size = n[0], steps = n[2];
  const auto states = recurrent_states(in[0], in[1], steps, size);
  double value = 0.0;
  for (std::size_t i = size; i < states.size(); ++i) value += states[i] * states[i];
  recurrent_gradient(in[0], states, steps, size, out[0],
                     [&](long i, long j) { return 2.0 * states[(i + 1) * size + j]; });
  return value;
}

// The seconds that so many calls take.
extern "C" double seconds(double (*f)(Arrays, Extents, Results), Arrays in, Extents n, Results out,
                          long calls) {
  const auto start = std::chrono::steady_clock::now();
  for (long i = 0; i < calls; ++i) f(in, n, out);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}
