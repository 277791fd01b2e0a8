"""Files of ours: written whole or not at all (`whole`), for people (`spreadsheet`)."""

from .whole import fingerprint as fingerprint
from .whole import read_json as read_json
from .whole import release as release
from .whole import replacing as replacing
from .whole import replacing_folder as replacing_folder
from .whole import without_passwords as without_passwords
from .whole import write_json as write_json
from .whole import write_text as write_text
