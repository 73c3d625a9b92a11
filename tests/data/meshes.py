"""Spheres of triangles for the tests of the surface and panel code."""

import numpy as np
from scipy.spatial import ConvexHull

from halfwave.data.surfaces import TriangleMesh

_G = (1 + 5**0.5) / 2
_CORNERS = np.array([np.roll((0, a, b * _G), turn) for turn in (2, 1, 0) for a in (-1, 1) for b in (-1, 1)])


def icosphere(n, centre=(0.0, 0.0, 0.0)):
    """The unit sphere as 20 n^2 triangles: an icosahedron, each side cut in n."""
    numbers, vertices, triangles = {}, [], []

    def vertex(point):
        point = point / np.linalg.norm(point)
        key = tuple(np.round(point, 9) + 0.0)
        if key not in numbers:
            numbers[key] = len(vertices)
            vertices.append(point)
        return numbers[key]

    for face in ConvexHull(_CORNERS).simplices:
        a, b, c = _CORNERS[face] if np.linalg.det(_CORNERS[face]) > 0 else _CORNERS[face[::-1]]
        at = [[vertex((a * (n - i - j) + b * i + c * j) / n) for j in range(n - i + 1)] for i in range(n + 1)]
        for i in range(n):
            for j in range(n - i):
                triangles.append((at[i][j], at[i + 1][j], at[i][j + 1]))
                if i + j < n - 1:
                    triangles.append((at[i + 1][j], at[i + 1][j + 1], at[i][j + 1]))
    return TriangleMesh(np.array(vertices) + np.array(centre), np.array(triangles))


def is_closed(mesh):
    """Whether every edge belongs to two triangles that run through it in opposite directions."""
    edges = [tuple(t[[i, (i + 1) % 3]]) for t in mesh.triangles for i in range(3)]
    return len(set(edges)) == len(edges) and {(b, a) for a, b in edges} == set(edges)


def volume(mesh):
    """Enclosed volume; positive when the triangles face outwards."""
    return (mesh.centroids * mesh.normals * mesh.areas[:, None]).sum() / 3
