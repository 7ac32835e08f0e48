"""Models with metadata and attached files."""
import io
import zipfile

import flatbuffers

from pylite.schema import tables, writer


def file(name, kind, locale=None):
    return tables.table("AssociatedFile")(name=name, type=kind, locale=locale)


def unit(kind, **values):
    return tables.table("ProcessUnit")(options=tables.table(kind)(**values))


def with_metadata(builder, inputs=(), outputs=(), files=None, units=()):
    """The model with metadata of its inputs and outputs, and an archive of files."""
    tensor = tables.table("TensorMetadata")
    record = tables.table("ModelMetadata")(subgraph_metadata=[tables.table("SubGraphMetadata")(
        input_tensor_metadata=[tensor(**values) for values in inputs],
        output_tensor_metadata=[tensor(**values) for values in outputs],
        input_process_units=list(units), associated_files=[])])
    out = flatbuffers.Builder(1024)
    out.Finish(writer._table(out, record), b"M001")
    builder.metadata("TFLITE_METADATA", bytes(out.Output()))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        for name, text in (files or {}).items():
            zipped.writestr(name, text)
    return builder.build() + (archive.getvalue() if files else b"")
