"""Datasets: random fields, one file per problem, the store, and readers of published formats."""

from halfwave.data.ahmed import STANDARD_AHMED, Ahmed, ahmed_body
from halfwave.data.body_flow import mesh_size
from halfwave.data.burgers import Burgers
from halfwave.data.car import Car, car_body
from halfwave.data.channels import ChannelAxis
from halfwave.data.cloud_files import CloudWriter, open_clouds
from halfwave.data.darcy import Darcy, SmoothDarcy
from halfwave.data.dataset import Dataset, Split, resolve_index
from halfwave.data.distance import query_grid, signed_distance
from halfwave.data.exact_waves import Advection, Heat
from halfwave.data.fields import FieldWriter, open_fields
from halfwave.data.generation import generate
from halfwave.data.generator import Generator, sample_shapes
from halfwave.data.given import GivenData, is_given
from halfwave.data.h5_writing import written_h5
from halfwave.data.kuramoto_sivashinsky import KuramotoSivashinsky
from halfwave.data.live import LiveDataset, live_dataset
from halfwave.data.lofted_body import LoftedBody, full_mesh
from halfwave.data.navier_stokes import NavierStokes
from halfwave.data.normalizer import Normalizer, fit_normalizers
from halfwave.data.opening import carries_checksums, open_any, open_dataset, open_point_dataset
from halfwave.data.placement import Placement
from halfwave.data.point_dataset import PointDataset, PointSample, PointSplit
from halfwave.data.poisson import Poisson
from halfwave.data.random_fields import GaussianField
from halfwave.data.readers.common import ReadOptions
from halfwave.data.registry import GENERATORS, build_generator, register_generator
from halfwave.data.shallow_water import ShallowWater
from halfwave.data.trajectories import Trajectories
from halfwave.data.vorticity_trajectories import VorticityTrajectories
from halfwave.data.windows import Window, Windows

__all__ = [
    "GENERATORS",
    "STANDARD_AHMED",
    "Advection",
    "Ahmed",
    "Burgers",
    "Car",
    "ChannelAxis",
    "CloudWriter",
    "Darcy",
    "Dataset",
    "FieldWriter",
    "GaussianField",
    "Generator",
    "GivenData",
    "Heat",
    "KuramotoSivashinsky",
    "LiveDataset",
    "LoftedBody",
    "NavierStokes",
    "Normalizer",
    "Placement",
    "PointDataset",
    "PointSample",
    "PointSplit",
    "Poisson",
    "ReadOptions",
    "ShallowWater",
    "SmoothDarcy",
    "Split",
    "Trajectories",
    "VorticityTrajectories",
    "Window",
    "Windows",
    "ahmed_body",
    "build_generator",
    "car_body",
    "carries_checksums",
    "fit_normalizers",
    "full_mesh",
    "generate",
    "is_given",
    "live_dataset",
    "mesh_size",
    "open_any",
    "open_clouds",
    "open_dataset",
    "open_fields",
    "open_point_dataset",
    "query_grid",
    "register_generator",
    "resolve_index",
    "sample_shapes",
    "signed_distance",
    "written_h5",
]
